// Package lab runs a real OVN on one machine: a sandbox of databases and
// ovn-northd without root, and hypervisors in network namespaces. It knows
// nothing of VPCs, and touches nothing of the machine's own OVN and OVS.
package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
)

// Binaries says where the programs of OVN and Open vSwitch are taken from.
// The zero value is this machine.
type Binaries struct {
	// Root is the folder of an unpacked Debian (debootstrap) whose programs
	// run by chroot(8), which needs root; "" is this machine.
	Root string
	// Dir is the absolute folder that programs under Root see at the same path
	// as this machine does: sockets, databases and pid files belong there. It
	// is not needed without Root.
	Dir string

	tied bool // programs end with the thread that starts them
}

// sbin are the folders that are searched after PATH: that of a plain Debian
// user lacks the first two.
var sbin = [...]string{"/usr/sbin", "/sbin", "/usr/bin", "/bin"}

// FindBinaries returns the Binaries of root ("" is this machine) with dir
// visible to them. The error names every one of the programs that is missing,
// with the Debian packages that bring them.
func FindBinaries(root, dir string, programs ...string) (*Binaries, error) {
	b := &Binaries{Root: root, Dir: dir}
	if root != "" {
		programs = append(programs, "chroot")
		if os.Geteuid() != 0 {
			return nil, fmt.Errorf("use the programs under %s: chroot needs root", root)
		}
		if !filepath.IsAbs(root) || !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("use the programs under %q with the folder %q: both paths must be absolute", root, dir)
		}
	}
	var missing []string
	for _, program := range programs {
		if _, err := b.find(program); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) > 0 {
		return nil, &MissingError{Root: root, Programs: missing}
	}
	return b, nil
}

// find returns the program's path, as it is inside Root.
func (b *Binaries) find(program string) (string, error) {
	if b.Root == "" {
		if path, err := exec.LookPath(program); err == nil {
			return path, nil
		}
	}
	for _, dir := range sbin {
		path := filepath.Join(dir, program)
		// Not Stat: an absolute link under Root leads out of it.
		info, err := os.Lstat(filepath.Join(b.Root, path))
		if err == nil && (info.Mode()&fs.ModeSymlink != 0 || info.Mode()&0o111 != 0 && !info.IsDir()) {
			return path, nil
		}
	}
	return "", &MissingError{Root: b.Root, Programs: []string{program}}
}

// enter is the script that runs its arguments 3.. in the root $1 with the
// folder $2 in view. It runs in a mount namespace of its own, so that the
// mounts end with the program; the tmpfs keeps short-lived folders out of the
// root.
const enter = `set -e
root=$1 dir=$2; shift 2
mount -t tmpfs tmpfs "$root/tmp"
mkdir -p "$root$dir"
for d in /dev /proc /sys "$dir"; do mount --rbind "$d" "$root$d"; done
exec chroot "$root" "$@"`

// Argv returns the command line that runs the program: to be prefixed, for
// instance with `ip netns exec NAME`. It fails with a MissingError.
func (b *Binaries) Argv(program string, args ...string) ([]string, error) {
	path, err := b.find(program)
	if err != nil {
		return nil, err
	}
	argv := append([]string{path}, args...)
	if b.Root != "" {
		argv = append([]string{"unshare", "--mount", "sh", "-c", enter, "sh", b.Root, b.Dir}, argv...)
	}
	return argv, nil
}

// Command is exec.CommandContext for a program of b. A missing program is
// the error of the command's Start.
func (b *Binaries) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	argv, err := b.Argv(program, args...)
	if err != nil {
		return &exec.Cmd{Path: program, Args: append([]string{program}, args...), Err: err}
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	if b.tied {
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	}
	return cmd
}

// Run runs a program of b to its end and returns its standard output. The
// error holds the command and its standard error.
func (b *Binaries) Run(ctx context.Context, program string, args ...string) (string, error) {
	return run(b.Command(ctx, program, args...), program, args)
}

// run runs cmd, which is reported as the program with its arguments.
func run(cmd *exec.Cmd, program string, args []string) (string, error) {
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return string(out), fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return string(out), nil
}

// MissingError is the absence of programs.
type MissingError struct {
	Root     string // where they were looked for; "" is this machine
	Programs []string
}

// Error names the programs, their packages and how to install these.
func (e *MissingError) Error() string {
	packages := map[string]bool{}
	for _, program := range e.Programs {
		packages[debianPackage(program)] = true
	}
	names := make([]string, 0, len(packages))
	for name := range packages {
		names = append(names, name)
	}
	sort.Strings(names)
	install := "apt-get install --no-install-recommends " + strings.Join(names, " ")
	if e.Root != "" {
		return fmt.Sprintf("%s not found under %s: chroot %s %s", strings.Join(e.Programs, ", "), e.Root, e.Root, install)
	}
	return fmt.Sprintf("%s not found in PATH or %s: %s", strings.Join(e.Programs, ", "), strings.Join(sbin[:], ", "), install)
}

// debianPackage returns the package that has the program. The databases'
// server belongs to openvswitch-common, which both packages below bring.
func debianPackage(program string) string {
	switch program {
	case "ovn-controller":
		return "ovn-host"
	case "ovs-vswitchd", "ovs-vsctl":
		return "openvswitch-switch"
	case "ovsdb-server", "ovsdb-tool", "ovsdb-client", "ovs-ofctl", "ovs-appctl":
		return "openvswitch-common"
	case "ip":
		return "iproute2"
	case "ping":
		return "iputils-ping"
	case "chroot":
		return "coreutils"
	case "unshare":
		return "util-linux"
	case "ovn-northd":
		return "ovn-central"
	}
	if strings.HasPrefix(program, "ovn-") {
		return "ovn-common"
	}
	return program
}
