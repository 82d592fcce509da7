package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/lint"
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
database.

Of a VPC that the input brings it also warns of what is legal and most likely not
meant: rules that are never reached or say the same as another, a deny for IPv4
alone where there is IPv6 too, prefixes that can't be a far side, lists that no
tier uses, stateless lists that let no reply back, and tiers nearly out of
addresses. With --strict these are errors.`,
		Example: `  ovn-vpc validate -f examples/three-tier/
  ovn-vpc validate -f shop/ --strict             # in CI
  generate-specs | ovn-vpc validate -f -`,
		Args: a.filesOnly(),
	}
	paths := fileFlag(cmd)
	strict := cmd.Flags().Bool("strict", false, "take for an error what is most likely not meant")
	a.outputFlag(cmd, outputText, outputJSON)
	cmd.RunE = a.action(func(context.Context, *cobra.Command, []string) error {
		set, found, err := a.load(*paths, whole)
		if err != nil {
			return err
		}
		found = append(found, whole(set)...)
		if !found.HasErrors() {
			doubts, err := doubts(set, *strict)
			if err != nil {
				return err
			}
			found = append(found, doubts...)
		}
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

// doubts is what lint finds in the VPCs that an input brings.
func doubts(set *model.Set, strict bool) (model.Diagnostics, error) {
	var found model.Diagnostics
	for _, r := range set.Resources {
		if r.Kind != model.KindVPC {
			continue
		}
		one, err := lint.Check(r.Metadata.Name, set.Resources, lint.Attached(r.Metadata.Name, set.Resources))
		if err != nil {
			return nil, err
		}
		found = append(found, one...)
	}
	if strict {
		found = found.AsErrors()
	}
	return found, nil
}

func newValidation(set *model.Set, found model.Diagnostics) validation {
	v := validation{Valid: true, Resources: []resourceName{}, Diagnostics: append(model.Diagnostics{}, found...)}
	for _, r := range set.Resources {
		v.Resources = append(v.Resources, resourceName{r.Kind, r.Metadata.VPC, r.Metadata.Name})
	}
	return v
}
