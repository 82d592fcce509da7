package reach_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/reach"
	"github.com/ovn-vpc/ovn-vpc/traffic"
)

func fromArchive(t *testing.T, name string) *reach.Policy {
	archive, err := txtar.ParseFile("testdata/" + name + ".txtar")
	require.NoError(t, err)
	return policy(t, archive, "")
}

func TestFilters(t *testing.T) {
	p := fromArchive(t, "tiers")
	ssh, err := traffic.Parse("tcp 22")
	require.NoError(t, err)
	r, err := p.Reach(reach.Options{To: []reach.End{{Kind: reach.Tier, Name: "app"}}, Traffic: &ssh})
	require.NoError(t, err)
	require.Equal(t, ""+
		"FROM  TO   TRAFFIC\n"+
		"app   app  tcp 22 (in the tier, not filtered)\n"+
		"web   app  tcp 22 from 10.0.1.0/25\n", r.Table())
	r, err = p.Reach(reach.Options{From: []reach.End{{Kind: reach.Outside}}})
	require.NoError(t, err)
	require.Len(t, r.Paths, 1)
	require.Equal(t, "tcp 80, 443; icmp echo", r.Paths[0].Traffic)
	require.Len(t, r.Notes, 1)
	// Ends of several kinds may be mixed.
	p = fromArchive(t, "attachments")
	r, err = p.Reach(reach.Options{From: []reach.End{{Kind: reach.Attachment, Name: "a1"}}, To: []reach.End{{Kind: reach.Tier, Name: "b"}}})
	require.NoError(t, err)
	require.Equal(t, "tcp 22 from 10.0.1.5", r.Paths[0].Traffic)
	require.Equal(t, "none", r.Find(reach.End{Kind: reach.Outside}, reach.End{Kind: reach.Outside}).Traffic)
}

func TestWhatIsNotThere(t *testing.T) {
	p := fromArchive(t, "attachments")
	for _, e := range []reach.End{{Kind: reach.Tier, Name: "c"}, {Kind: reach.Attachment, Name: "a9"}} {
		_, err := p.Reach(reach.Options{To: []reach.End{e}})
		require.ErrorContains(t, err, e.Name)
	}
	// One that is disabled is there, and reaches nothing.
	r, err := p.Reach(reach.Options{From: []reach.End{{Kind: reach.Attachment, Name: "a4"}}})
	require.NoError(t, err)
	require.Empty(t, r.Paths)
	tier := &model.Resource{Kind: model.KindTier, Metadata: model.Metadata{Name: "t", VPC: "v"}, Spec: &model.TierSpec{ACL: "x"}}
	_, err = reach.New("v", []*model.Resource{tier})
	require.ErrorContains(t, err, "reading the lists of VPC v: tier t: there is no list x")
	guest := &model.Resource{Kind: model.KindAttachment, Metadata: model.Metadata{Name: "g", VPC: "v"}, Spec: &model.AttachmentSpec{Tier: "t"}}
	_, err = reach.New("v", []*model.Resource{guest})
	require.ErrorContains(t, err, "attachment g: there is no tier t")
	// Of another VPC.
	p, err = reach.New("w", []*model.Resource{tier, guest})
	require.NoError(t, err)
	r, err = p.Reach(reach.Options{})
	require.NoError(t, err)
	require.Empty(t, r.Paths)
}
