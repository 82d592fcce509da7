package main

import (
	"context"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// check holds the resources of an input against each other and what else it
// knows of.
type check func(*model.Set) model.Diagnostics

// load reads the resources of files. With an error in them it is an
// InvalidError that holds also what further says, so that all faults of an
// input are told at once. found are the warnings.
func (a *app) load(paths []string, further check) (set *model.Set, found model.Diagnostics, err error) {
	inputs, found, err := a.inputs(paths)
	if err != nil {
		return nil, nil, err
	}
	over := make(chan struct{})
	close(over)
	return parse(over, inputs, found, further)
}

// inputs reads files; found is what can't be read of them.
func (a *app) inputs(paths []string) (inputs []model.Input, found model.Diagnostics, err error) {
	if len(paths) == 0 {
		return nil, nil, usagef("say what to read: -f FILE, where FILE is a file, a folder, or - for standard input")
	}
	inputs, found = model.ReadPaths(paths, a.stdin)
	return inputs, found, nil
}

// parse is load of what has been read, where found was found. Until over is closed a
// processor is left to a database that works meanwhile, perhaps on this machine.
func parse(over <-chan struct{}, inputs []model.Input, found model.Diagnostics, further check) (*model.Set, model.Diagnostics, error) {
	set, faults := model.LoadBeside(over, inputs...)
	found = append(found, faults...)
	if found.HasErrors() {
		found = append(found, further(set).Errors()...)
		found.Sort()
		return nil, nil, &engine.InvalidError{Diagnostics: found}
	}
	if len(set.Resources) == 0 {
		found = append(found, model.Diagnostic{Severity: model.LevelWarning, Problem: "no document in the input: nothing is changed"})
	}
	return set, found, nil
}

// offline checks resources against each other alone: what else is in the
// database is not known.
func offline(set *model.Set) model.Diagnostics {
	return model.Check(set.Resources, func(model.ID) *model.Resource { return nil }, func(string) bool { return false })
}

// whole is offline, but an input that brings a VPC is taken for all of it: a
// reference in it to what is not there is a slip, not something in the database.
func whole(set *model.Set) model.Diagnostics {
	return model.Check(set.Resources, func(model.ID) *model.Resource { return nil }, func(vpc string) bool {
		return vpc != "" && set.Get(model.ID{Kind: model.KindVPC, Name: vpc}) != nil
	})
}

// online checks resources against the database too, where that can be reached
// soon: an input that is refused anyway must not wait for it.
func (a *app) online(ctx context.Context) check {
	return func(set *model.Set) model.Diagnostics {
		brief, cancel := context.WithTimeout(ctx, min(sbPatience, a.flags.timeout/4))
		defer cancel()
		found, err := a.faults(brief, set)
		if err != nil {
			a.logger().Info("the input is not held against the database", "error", err)
			return offline(set)
		}
		return found
	}
}

func (a *app) faults(ctx context.Context, set *model.Set) (model.Diagnostics, error) {
	b, done, err := a.connect(ctx, false)
	if err != nil {
		return nil, err
	}
	defer done()
	return b.Faults(ctx, set)
}

// joined puts the warnings of the input before what an engine's error says.
func joined(found model.Diagnostics, err error) error {
	if invalid, ok := err.(*engine.InvalidError); ok {
		return &engine.InvalidError{Diagnostics: union(found, invalid.Diagnostics)}
	}
	return err
}

// union is two lists one after the other, what is in both once: a server reads
// the input again, and finds in it what was found here.
func union(a, b model.Diagnostics) model.Diagnostics {
	out := slices.Clone(a)
	for _, d := range b {
		if !slices.Contains(a, d) {
			out = append(out, d)
		}
	}
	return out
}
