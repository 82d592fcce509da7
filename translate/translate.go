package translate

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// Context is what a translation may look at besides the resource itself.
type Context struct {
	// Owner is the installation that owns the rows.
	Owner string
	// Global is the UUID of the row of NB_Global.
	Global nbdb.UUID
	// Lookup finds another resource of the same desired state, nil if there is
	// none.
	Lookup func(model.ID) *model.Resource
	// Tiers lists the tiers of a VPC, in the order of their names.
	Tiers func(vpc string) []*model.Resource
	// Lists remembers the rows of lists, which a list and the tiers that use it all
	// refer to; nil to make them each time.
	Lists *Lists
}

// Lists are rows of lists of one state, by name. They may be used at the same
// time.
type Lists struct {
	Rules *Rules // what is known from other states; nil for nothing

	mu   sync.Mutex
	rows map[model.ID][]*nbdb.ACL
}

// of are the rows of a list, made by make if they are not known.
func (l *Lists) of(id model.ID, make func() []*nbdb.ACL) []*nbdb.ACL {
	if l == nil {
		return make()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	rows, ok := l.rows[id]
	if !ok {
		if rows = make(); l.rows == nil {
			l.rows = map[model.ID][]*nbdb.ACL{}
		}
		l.rows[id] = rows
	}
	return rows
}

func (c Context) tier(vpc, name string) *model.TierSpec {
	r := c.Lookup(model.ID{Kind: model.KindTier, VPC: vpc, Name: name})
	if r == nil {
		return nil
	}
	return r.Spec.(*model.TierSpec)
}

func (c Context) vpc(name string) *model.VPCSpec {
	r := c.Lookup(model.ID{Kind: model.KindVPC, Name: name})
	if r == nil {
		return nil
	}
	return r.Spec.(*model.VPCSpec)
}

// acl finds a list, the built-in ones included.
func (c Context) acl(vpc, name string) *model.ACLSpec {
	if b := model.BuiltinACL(name); b != nil {
		return b
	}
	r := c.Lookup(model.ID{Kind: model.KindACL, VPC: vpc, Name: name})
	if r == nil {
		return nil
	}
	return r.Spec.(*model.ACLSpec)
}

// Fragment translates one resource. Its references must have been checked
// (model.Check): one that is missing is an error of the caller's.
func Fragment(r *model.Resource, c Context) (nbdb.Fragment, error) {
	b := &builder{Context: c, resource: r}
	var err error
	switch spec := r.Spec.(type) {
	case *model.VPCSpec:
		err = b.vpcRows(spec)
	case *model.VPCOfferingSpec:
		err = b.entry(nbdb.TableNBGlobal, b.Global, KeyOfferingPrefix)
	case *model.TierSpec:
		err = b.tierRows(spec)
	case *model.ACLSpec:
		err = b.aclRows(spec)
	case *model.AttachmentSpec:
		err = b.attachmentRows(spec)
	case *model.ExpectationSpec:
		err = errors.Join(b.entry(nbdb.TableLogicalRouter, RouterUUID(b.Owner, r.Metadata.VPC), KeyExpectationPrefix),
			b.entry(nbdb.TablePortGroup, HistoryUUID(b.Owner, r.Metadata.VPC), KeyExpectationPrefix))
	default:
		err = fmt.Errorf("no translation for kind %s", r.Kind)
	}
	if err != nil {
		return nbdb.Fragment{}, fmt.Errorf("translating %s: %w", r.ID(), err)
	}
	return b.Fragment, nil
}

// builder collects the fragment of one resource.
type builder struct {
	Context
	nbdb.Fragment
	resource *model.Resource
}

// ids are the external_ids of a row that realises key.
func (b *builder) ids(key string) map[string]string {
	m := b.resource.Metadata
	vpc := m.VPC
	if b.resource.Kind == model.KindVPC {
		vpc = m.Name
	}
	return map[string]string{KeyOwner: b.Owner, KeyKey: key, KeyVPC: vpc}
}

// principal are the external_ids of the resource's principal row.
func (b *builder) principal(key string) (map[string]string, error) {
	ids := b.ids(key)
	stored, err := store(ids, b.resource)
	if err != nil {
		return nil, err
	}
	ids[KeyDigest] = Digest([]byte(stored), b.resource.Manager)
	b.brought(ids)
	return ids, nil
}

// brought notes with a resource or its second copy who brought it, and by
// which request.
func (b *builder) brought(ids map[string]string) {
	ids[KeyManager] = b.resource.Manager
	if b.resource.Request != "" {
		ids[KeyRequest] = b.resource.Request
	}
}

func (b *builder) row(r nbdb.Row) { b.Rows = append(b.Rows, r) }

func (b *builder) edge(table string, from nbdb.UUID, column string, target nbdb.UUID) {
	b.Edges = append(b.Edges, nbdb.Edge{Table: table, From: from, Column: column, Target: target})
}

func (b *builder) uuid(table, key string) nbdb.UUID { return RowUUID(b.Owner, table, key) }
