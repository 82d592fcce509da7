package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// validation is what validate prints with -o json.
type validation struct {
	Valid       bool              `json:"valid"`
	Resources   []resourceName    `json:"resources"`
	Diagnostics model.Diagnostics `json:"diagnostics"`
}

type resourceName struct {
	Kind model.Kind `json:"kind"`
	VPC  string     `json:"vpc,omitempty"`
	Name string     `json:"name"`
}

func (a *app) validateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "validate -f FILE", Short: "Check specs without a database",
		Long: `Check specs by themselves and against each other, without a database.

A reference to what the input does not hold is an error in a VPC that the input
brings. In another VPC, and of offerings, it is a warning: it may be in the
database.`,
		Example: `  ovn-vpc validate -f examples/three-tier/
  generate-specs | ovn-vpc validate -f -`,
		Args: a.filesOnly(),
	}
	paths := fileFlag(cmd)
	a.outputFlag(cmd, outputText, outputJSON)
	cmd.RunE = a.action(func(context.Context, *cobra.Command, []string) error {
		set, found, err := a.load(*paths, whole)
		if err != nil {
			return err
		}
		found = append(found, whole(set)...)
		found.Sort()
		if found.HasErrors() {
			return &engine.InvalidError{Diagnostics: found}
		}
		if a.output == outputJSON {
			a.printJSON(newValidation(set, found))
			return nil
		}
		a.diagnose(found)
		a.printf("Valid: %s.\n", inventory(set))
		return nil
	})
	return cmd
}

func newValidation(set *model.Set, found model.Diagnostics) validation {
	v := validation{Valid: true, Resources: []resourceName{}, Diagnostics: append(model.Diagnostics{}, found...)}
	for _, r := range set.Resources {
		v.Resources = append(v.Resources, resourceName{r.Kind, r.Metadata.VPC, r.Metadata.Name})
	}
	return v
}
