package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// kindAll is the word for every kind.
const kindAll = "all"

// kindsUsage lists the kinds in help texts.
func kindsUsage() string {
	var words []string
	for _, k := range model.Kinds() {
		words = append(words, strings.ToLower(string(k)))
	}
	return strings.Join(words, ", ")
}

// selection reads the arguments KIND NAME, KIND VPC/NAME, or KIND/NAME and
// KIND/VPC/NAME as -o name prints them. The name is empty if it isn't given,
// the kind if it is the word all, which has to be among words.
func selection(args []string, vpc string, words ...string) (engine.Filter, error) {
	word, name, joined := strings.Cut(args[0], "/")
	if joined && len(args) > 1 {
		return engine.Filter{}, usagef("%q names a resource already: remove %q", args[0], args[1])
	}
	if len(args) > 1 {
		name = args[1]
	}
	f := engine.Filter{VPC: vpc, Name: name}
	if word != kindAll || !slices.Contains(words, kindAll) {
		kind, ok := model.ParseKind(word)
		if !ok {
			return f, usagef("there is no kind %q: one of %s", word, strings.Join(words, ", "))
		}
		f.Kind = kind
	}
	if scope, rest, ok := strings.Cut(name, "/"); ok {
		if vpc != "" && vpc != scope {
			return f, usagef("%q is not in the VPC of --vpc %s", name, vpc)
		}
		f.VPC, f.Name = scope, rest
	}
	switch {
	case f.Name == "" && (joined || len(args) > 1) || strings.Contains(f.Name, "/"):
		return f, usagef("%q is not a name: write NAME, or VPC/NAME", strings.Join(args, " "))
	case f.Kind == "" && f.Name != "":
		return f, usagef("a name needs a kind: one of %s", kindsUsage())
	case f.Kind != "" && f.Kind.Global() && f.VPC != "":
		return f, usagef("a %s belongs to no VPC: give its name alone", f.Kind)
	}
	return f, nil
}

// id is what a filter with a name asks for, as far as it says.
func wanted(f engine.Filter) model.ID { return model.ID{Kind: f.Kind, VPC: f.VPC, Name: f.Name} }

// one finds the single resource that a filter with a name asks for, and all
// that was read on the way.
func one(ctx context.Context, b backend, f engine.Filter) (*engine.Object, []engine.Object, error) {
	all, err := b.Get(ctx, engine.Filter{VPC: f.VPC})
	if err != nil {
		return nil, nil, err
	}
	var found []*engine.Object
	for i, o := range all {
		if o.Resource.Kind == f.Kind && o.Resource.Metadata.Name == f.Name {
			found = append(found, &all[i])
		}
	}
	switch len(found) {
	case 0:
		return nil, nil, missing(f, all)
	case 1:
		return found[0], all, nil
	}
	var ids []string
	for _, o := range found {
		ids = append(ids, o.Resource.Metadata.VPC+"/"+f.Name)
	}
	return nil, nil, usagef("there are %d %s named %s: choose one of %s", len(found), f.Kind.Plural(), f.Name, strings.Join(ids, ", "))
}

// missing is the error for a name that is not there, with those that are
// most alike.
func missing(f engine.Filter, all []engine.Object) error {
	const few = 5
	err := fmt.Errorf("%w", &engine.NotFoundError{ID: wanted(f)})
	var names []string
	for _, o := range all {
		if id := o.Resource.ID(); id.Kind == f.Kind && (f.VPC == "" || id.Kind.Global() || id.VPC == f.VPC) {
			names = append(names, path(id))
		}
	}
	if len(names) == 0 {
		return err
	}
	slices.SortStableFunc(names, func(a, b string) int { return likeness(f.Name, b) - likeness(f.Name, a) })
	more := ""
	if len(names) > few {
		more = fmt.Sprintf(" and %d more", len(names)-few)
		names = names[:few]
	}
	return fmt.Errorf("%w; there are %s%s", err, strings.Join(names, ", "), more)
}

// path is a resource's name with its VPC.
func path(id model.ID) string {
	if id.VPC == "" {
		return id.Name
	}
	return id.VPC + "/" + id.Name
}

// likeness is how many first characters a name has in common with another's
// last part.
func likeness(name, full string) int {
	other := full[strings.LastIndex(full, "/")+1:]
	n := 0
	for n < len(name) && n < len(other) && name[n] == other[n] {
		n++
	}
	return n
}
