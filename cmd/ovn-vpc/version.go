package main

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// buildInfo is what version prints with -o json.
type buildInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"` // of the commit, RFC 3339
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Print what this program was built from",
		Example: `  ovn-vpc version -o json`,
		Args:    a.args(cobra.NoArgs),
	}
	a.outputFlag(cmd, outputText, outputJSON)
	cmd.RunE = a.action(func(context.Context, *cobra.Command, []string) error {
		info := build()
		if a.output == outputJSON {
			a.printJSON(info)
			return nil
		}
		a.printf("ovn-vpc %s\n", info.Version)
		if info.Commit != "" {
			changed := ""
			if info.Modified {
				changed = ", with changes"
			}
			a.printf("commit %s of %s%s\n", info.Commit, info.Time, changed)
		}
		a.printf("%s %s\n", info.Go, info.Platform)
		return nil
	})
	return cmd
}

func build() buildInfo {
	info := buildInfo{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	read, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	info.Version = read.Main.Version
	for _, s := range read.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = s.Value
		case "vcs.time":
			info.Time = s.Value
		case "vcs.modified":
			info.Modified = s.Value == "true"
		}
	}
	return info
}
