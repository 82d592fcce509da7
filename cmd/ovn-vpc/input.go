package main

import (
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// load reads the resources of files. With an error in them it is an
// InvalidError that holds all that can be said without a database. found are
// the warnings.
func (a *app) load(paths []string) (set *model.Set, found model.Diagnostics, err error) {
	if len(paths) == 0 {
		return nil, nil, usagef("say what to read: -f FILE, where FILE is a file, a folder, or - for standard input")
	}
	inputs, found := model.ReadPaths(paths, a.stdin)
	set, faults := model.Load(inputs...)
	found = append(found, faults...)
	if found.HasErrors() {
		found = append(found, offline(set).Errors()...)
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

// joined puts the warnings of the input before what an engine's error says.
func joined(found model.Diagnostics, err error) error {
	if invalid, ok := err.(*engine.InvalidError); ok {
		return &engine.InvalidError{Diagnostics: append(found, invalid.Diagnostics...)}
	}
	return err
}
