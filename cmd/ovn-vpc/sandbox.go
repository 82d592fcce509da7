package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

const sandboxLong = `A sandbox is a private OVN without hypervisors: ovsdb-servers for the northbound
and the southbound database and ovn-northd, on unix sockets in one folder. It
needs no root, and touches nothing of the system's own OVN.`

func (a *app) sandboxCommand() *cobra.Command {
	group := a.group("sandbox", "A private OVN to try things on", a.sandboxUp(), a.sandboxDown(), a.sandboxEnv(), a.sandboxKeep())
	group.Long = sandboxLong
	group.PersistentFlags().String("dir", "", "the sandbox's folder (default "+sandboxName+" in $XDG_RUNTIME_DIR, else in the folder for temporary files)")
	return group
}

func (a *app) sandboxUp() *cobra.Command {
	cmd := &cobra.Command{
		Use: "up", Short: "Start the sandbox, or what of it isn't running", Long: sandboxLong,
		Example: `  ovn-vpc sandbox up && eval "$(ovn-vpc sandbox env)"`,
		Args:    a.noArgs(),
	}
	vxlan := cmd.Flags().Bool("vxlan", false, "let OVN count with the limits of VXLAN: 4095 switches and routers, 2047 ports on each")
	cmd.RunE = a.action(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		dir, err := a.sandboxDir(cmd)
		if err != nil {
			return err
		}
		s, err := lab.SandboxUp(ctx, lab.SandboxOptions{Dir: dir, VXLAN: *vxlan})
		if err != nil {
			return err
		}
		a.printf("The sandbox runs in %s. To use it:\n", s.Dir())
		for _, v := range s.Env() {
			a.printf("export %s\n", assignment(v))
		}
		return nil
	})
	return cmd
}

func (a *app) sandboxDown() *cobra.Command {
	cmd := &cobra.Command{
		Use: "down", Short: "Stop the sandbox", Long: "Stop the sandbox. Its databases stay for the next up, unless --purge removes them.",
		Example: `  ovn-vpc sandbox down --purge`,
		Args:    a.noArgs(),
	}
	purge := cmd.Flags().Bool("purge", false, "remove the databases and the folder too")
	cmd.RunE = a.action(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		s, err := a.sandbox(cmd)
		if err != nil {
			return err
		}
		if *purge {
			err = s.Purge(ctx)
		} else {
			err = s.Down(ctx)
		}
		return err
	})
	return cmd
}

func (a *app) sandboxEnv() *cobra.Command {
	cmd := &cobra.Command{
		Use: "env", Short: "Print the variables that point ovn-vpc and OVN's tools at the sandbox",
		Example: `  eval "$(ovn-vpc sandbox env)"`,
		Args:    a.noArgs(),
	}
	cmd.RunE = a.action(func(_ context.Context, cmd *cobra.Command, _ []string) error {
		s, err := a.sandbox(cmd)
		if err != nil {
			return err
		}
		running, err := s.Running()
		if err != nil {
			return err
		}
		if !running {
			return fmt.Errorf("the sandbox in %s is not running: start it with %q", s.Dir(), "ovn-vpc sandbox up")
		}
		for _, v := range s.Env() {
			a.printf("export %s\n", assignment(v))
		}
		return nil
	})
	return cmd
}

func (a *app) sandbox(cmd *cobra.Command) (*lab.Sandbox, error) {
	dir, err := a.sandboxDir(cmd)
	if err != nil {
		return nil, err
	}
	return lab.OpenSandbox(dir)
}

const sandboxName = "ovn-vpc-sandbox"

// sandboxDir is the folder of --dir, or the user's own.
func (a *app) sandboxDir(cmd *cobra.Command) (string, error) {
	dir, err := cmd.Flags().GetString("dir")
	if err != nil || dir != "" {
		return dir, err
	}
	if runtime := a.getenv("XDG_RUNTIME_DIR"); runtime != "" {
		return filepath.Join(runtime, sandboxName), nil
	}
	dir = filepath.Join(os.TempDir(), sandboxName+"-"+strconv.Itoa(os.Geteuid()))
	return dir, private(dir)
}

// private refuses a folder in a place open to all that somebody else could
// have made: what is in it says which programs to run.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking at the sandbox's folder: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 || ok && int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a folder of this user alone: remove it, or choose another with --dir", dir)
	}
	return nil
}

// assignment quotes the value of NAME=VALUE for a POSIX shell.
func assignment(variable string) string {
	name, value, _ := strings.Cut(variable, "=")
	return name + "='" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}
