// Package nb_test lets the northbound database fail under the load of two servers
// and of commands, and holds them to what they have acknowledged.
package nb_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/test/program"
)

const (
	vpc = "shop"
	// detection is within which time docs/server.md says that a server knows of a
	// database that hangs or has no leader, slack what a slow machine may add.
	detection, slack = 10 * time.Second, 5 * time.Second
	// patience bounds what has to come about in the end.
	patience = 2 * time.Minute
	// pause is the time between two looks.
	pause = 50 * time.Millisecond
)

// stage is two servers on a database.
type stage struct {
	t       *testing.T
	nb      string // the database's remotes
	program string
	servers []*program.Server
	clients []*client.Client // of each server
	dir     string           // of files for commands
}

func newStage(t *testing.T, nb string) *stage {
	t.Helper()
	s := &stage{t: t, nb: nb, program: program.Build(t, "../../.."), dir: t.TempDir()}
	for range 2 {
		server := program.Serve(t, s.program, "--nb", nb)
		// One attempt: the test itself repeats, and knows of it.
		c, err := client.New(client.Options{URL: server.URL(), Attempts: 1})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		s.servers, s.clients = append(s.servers, server), append(s.clients, c)
	}
	return s
}

// command runs a command of the program on the database, and gives its output.
func (s *stage) command(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, s.program, append(args, "--nb", s.nb)...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("ovn-vpc %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// apply applies a text by a command.
func (s *stage) apply(ctx context.Context, text string) error {
	file, err := os.CreateTemp(s.dir, "*.yaml")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if _, err = file.WriteString(text); err == nil {
		err = file.Close()
	}
	if err == nil {
		_, err = s.command(ctx, "apply", "-f", file.Name())
	}
	return err
}

// found makes the VPC of the load.
func (s *stage) found() {
	s.t.Helper()
	require.NoError(s.t, s.apply(s.t.Context(), document("VPC", vpc, "", "cidrs: [10.10.0.0/16]")+
		document("Tier", "web", vpc, "cidrs: [10.10.0.0/17]")))
}

// document is a resource in YAML.
func document(kind, name, vpc, spec string) string {
	if vpc != "" {
		vpc = ", vpc: " + vpc
	}
	return fmt.Sprintf("---\napiVersion: ovn-vpc/v1\nkind: %s\nmetadata: {name: %s%s}\nspec: {%s}\n", kind, name, vpc, spec)
}

func attachmentID(name string) model.ID {
	return model.ID{Kind: model.KindAttachment, VPC: vpc, Name: name}
}

// attachment is one whose address, and without a name that too, is chosen for it.
func attachment(name string) *model.Resource {
	spec := model.NewSpec(model.KindAttachment).(*model.AttachmentSpec)
	spec.Tier = "web"
	return &model.Resource{Kind: model.KindAttachment, Metadata: model.Metadata{VPC: vpc, Name: name}, Spec: spec}
}

// settled makes a call on one server, and where there is no answer that settles
// it, the same on the other, until it is settled. It tells how often it was made.
func (s *stage) settled(ctx context.Context, do func(context.Context, *client.Client) error) (tried int, err error) {
	for i := rand.IntN(len(s.clients)); ; i++ {
		tried++
		err := do(ctx, s.clients[i%len(s.clients)])
		if err == nil || !unsettled(err) {
			return tried, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return tried, fmt.Errorf("calling %d times: %w: %w", tried, ctx.Err(), err)
		}
	}
}

// unsettled tells whether the same call may do on another server, or later.
func unsettled(err error) bool {
	var invalid *engine.InvalidError
	var missing *engine.NotFoundError
	var refused *client.Error
	switch {
	case errors.As(err, &invalid), errors.As(err, &missing):
		return false
	case errors.As(err, &refused):
		return slices.Contains([]int{http.StatusServiceUnavailable, http.StatusGatewayTimeout}, refused.Status)
	}
	return true // a conflict, or no answer
}

// serves waits until each server answers and carries out a write, and gives the
// time that the last one took.
func (s *stage) serves(ctx context.Context) time.Duration {
	s.t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i, c := range s.clients {
		for n := 0; ; n++ {
			patch := map[string]any{"metadata": map[string]any{"labels": map[string]string{"round": fmt.Sprintf("%d-%d", i, rand.IntN(1<<30))}}}
			_, err := c.Patch(ctx, model.ID{Kind: model.KindVPC, Name: vpc}, patch, client.WriteOptions{})
			if err == nil {
				_, err = s.servers[i].Get(ctx, "/readyz")
			}
			if err == nil {
				break
			}
			require.NoError(s.t, ctx.Err(), "server %d does not serve again: %v", i, err)
			<-time.After(pause)
		}
	}
	return time.Since(began)
}

// healthy demands that no server's log has a fault of its own.
func (s *stage) healthy() {
	s.t.Helper()
	for _, server := range s.servers {
		require.Empty(s.t, server.Complaints())
	}
}

// database is the file of one of a sandbox's databases.
func database(dir, name string) string { return filepath.Join(dir, name+".db") }
