package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// completionPatience is how long a shell waits for names from the database.
const completionPatience = 2 * time.Second

// names are the names of a kind's resources, none where the database can't be
// read: the shell's line is no place for errors.
func (a *app) names(cmd *cobra.Command, kind model.Kind, vpc string) []string {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, min(completionPatience, a.flags.timeout))
	defer cancel()
	b, done, err := a.connect(ctx, false)
	if err != nil {
		return nil
	}
	defer done()
	names, err := b.Names(ctx, kind, vpc)
	if err != nil {
		return nil
	}
	return names
}

func (a *app) completeVPCs(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.names(cmd, model.KindVPC, ""), cobra.ShellCompDirectiveNoFileComp
}

// completeResource completes KIND NAME; with all, the word all too.
func (a *app) completeResource(all bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			var words []string
			for _, k := range model.Kinds() {
				words = append(words, strings.ToLower(string(k)))
			}
			if all {
				words = append(words, kindAll)
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		case 1:
			kind, ok := model.ParseKind(args[0])
			if !ok {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			vpc, err := cmd.Flags().GetString("vpc")
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeName(cmd, kind, vpc, typed), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeName completes NAME, and VPC/NAME once the VPC is typed.
func (a *app) completeName(cmd *cobra.Command, kind model.Kind, vpc, typed string) []string {
	scope, _, ok := strings.Cut(typed, "/")
	if !ok {
		return a.names(cmd, kind, vpc)
	}
	names := a.names(cmd, kind, scope)
	for i := range names {
		names[i] = scope + "/" + names[i]
	}
	return names
}

// completeReplace completes VPC TIER NEWACL.
func (a *app) completeReplace(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	switch len(args) {
	case 0:
		names = a.names(cmd, model.KindVPC, "")
	case 1:
		names = a.names(cmd, model.KindTier, args[0])
	case 2:
		names = a.names(cmd, model.KindACL, args[0])
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// reference is a resource as a word on a command line: kind/vpc/name.
func reference(id model.ID) string {
	return strings.ToLower(string(id.Kind)) + "/" + path(id)
}
