package nb_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/test/faults"
)

// Where the connection breaks in the middle of the answer to a transaction, the
// change has been made, once, and who called is told so: by servers and commands.
func TestAnswerCut(t *testing.T) {
	t.Parallel() // it waits most of the time
	box := labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: true})
	p := newProxy(t, strings.TrimPrefix(box.NB(), "unix:"))
	s, ctx := newStage(t, p.remote()), t.Context()
	s.found()
	tried, want := testflag.Cases(36), map[string]bool{}
	for n := range tried {
		c, name := s.clients[n%2], fmt.Sprintf("a%d", n)
		p.cut(n * 7 / 5 * (n % 3)) // every third time not a byte of it comes
		switch n % 6 {
		case 0, 1:
			got, err := c.Put(ctx, attachment(name), client.WriteOptions{New: n%2 == 0})
			require.NoError(t, err, n)
			require.True(t, got.Created, n)
			want[name] = true
		case 2:
			// Without a key nobody could tell a second one from the first.
			got, err := c.Create(ctx, attachment(""), client.CreateOptions{})
			require.NoError(t, err, n)
			want[got.Resource.Metadata.Name] = true
		case 3:
			labels := map[string]any{"metadata": map[string]any{"labels": map[string]string{"n": name}}}
			_, err := c.Patch(ctx, model.ID{Kind: model.KindTier, VPC: vpc, Name: "web"}, labels, client.WriteOptions{})
			require.NoError(t, err, n)
		case 4:
			require.NoError(t, s.apply(ctx, document("Attachment", name, vpc, "tier: web")), n)
			want[name] = true
		case 5:
			name = fmt.Sprintf("a%d", n-5)
			if n%12 == 5 {
				_, err := c.DeleteOne(ctx, attachmentID(name), client.WriteOptions{})
				require.NoError(t, err, n)
			} else {
				_, err := s.command(ctx, "delete", "attachment", vpc+"/"+name)
				require.NoError(t, err, n)
			}
			delete(want, name)
		}
		require.Equal(t, n+1, p.done(), "no answer was cut")
	}
	objects, err := s.clients[0].Get(ctx, engine.Filter{Kind: model.KindAttachment})
	require.NoError(t, err)
	have := map[string]bool{}
	for _, o := range objects {
		have[o.Resource.Metadata.Name] = true
	}
	require.Equal(t, want, have)
	_, err = s.command(ctx, "drift", "--exit-code")
	require.NoError(t, err)
	s.healthy()
	faults.Audit(t, tried, database(box.Dir(), "nb"))
}

// Connections that break anywhere, again and again, answers and monitors alike,
// cost time and nothing else.
func TestConnectionsCut(t *testing.T) {
	t.Parallel() // it waits most of the time
	box := labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: true})
	p := newProxy(t, strings.TrimPrefix(box.NB(), "unix:"))
	s := newStage(t, p.remote())
	s.found()
	l := s.begin()
	for range testflag.Cases(5) {
		p.spoil(100_000) // of which the schema is 20,000
		<-time.After(2 * time.Second)
		p.spoil(0)
		s.serves(t.Context())
	}
	cuts := p.done()
	l.end(box.NBCtl)
	faults.Audit(t, cuts, database(box.Dir(), "nb"))
}
