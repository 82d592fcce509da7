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
		Args:    a.noArgs(),
	}
	a.outputFlag(cmd, outputText, outputJSON)
	cmd.RunE = a.action(func(context.Context, *cobra.Command, []string) error {
		info := build()
		if a.output == outputJSON {
			a.printJSON(info)
			return nil
		}
		a.printf("%s", info)
		return nil
	})
	return cmd
}

func (b buildInfo) String() string {
	text := "ovn-vpc " + b.Version + "\n"
	if b.Commit != "" {
		text += "commit " + b.Commit + " of " + b.Time
		if b.Modified {
			text += ", with changes"
		}
		text += "\n"
	}
	return text + b.Go + " " + b.Platform + "\n"
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
