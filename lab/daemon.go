package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// daemon is one process of a sandbox. Its files are in the sandbox's folder
// and begin with its name.
type daemon struct {
	name    string // "nb", "sb", "northd"
	program string
	args    []string
	// noUnixctl is set for a program that can't be told its control socket:
	// ovn-controller of 23.03.
	noUnixctl bool
	// prepare brings about what the process needs: its database, for instance.
	prepare func(ctx context.Context) error
	// inside runs what starts the process where it is to be: in a network
	// namespace.
	inside func(func() error) error
	dir    string
	bin    *Binaries
}

const (
	// patience is how long a process has after SIGTERM before SIGKILL comes.
	patience = 10 * time.Second
	// pollInterval is the time between two looks at whether to wait on.
	pollInterval = 50 * time.Millisecond

	schemaNB = "/usr/share/ovn/ovn-nb.ovsschema"
	schemaSB = "/usr/share/ovn/ovn-sb.ovsschema"
)

// nbNames are the names of the servers of the northbound database.
func (s *Sandbox) nbNames() []string {
	if s.options.NBServers == 1 {
		return []string{"nb"}
	}
	names := make([]string, s.options.NBServers)
	for i := range names {
		names[i] = "nb" + strconv.Itoa(i+1)
	}
	return names
}

// daemons are the sandbox's processes in the order of their start.
func (s *Sandbox) daemons() []daemon {
	var daemons []daemon
	names := s.nbNames()
	for i, name := range names {
		d := s.database(name, schemaNB)
		if len(names) > 1 {
			d.prepare = s.clusterMember(i)
		}
		if s.links != nil {
			d.inside = s.links.nodes[i].do
		}
		daemons = append(daemons, d)
	}
	if s.options.NoNorthd {
		return daemons
	}
	sb := s.database("sb", schemaSB)
	if s.sbRemote != "" {
		sb.args = append([]string{"--remote=" + s.sbRemote}, sb.args...)
	}
	return append(daemons, sb, daemon{
		name: "northd", program: "ovn-northd", dir: s.dir, bin: s.bin, inside: s.inside,
		args: []string{"--ovnnb-db=" + s.NB(), "--ovnsb-db=" + s.SB()},
		// Without a leader it would wait longer and longer between its attempts.
		prepare: s.connected,
	})
}

// database is an ovsdb-server with one standalone database.
func (s *Sandbox) database(name, schema string) daemon {
	db := s.path(name + ".db")
	return daemon{
		name: name, program: "ovsdb-server", dir: s.dir, bin: s.bin, inside: s.inside,
		args: []string{"--remote=punix:" + s.path(name+".sock"), db},
		prepare: func(ctx context.Context) error {
			if exists(db) {
				// The programs may be newer than the database.
				old, err := s.bin.Run(ctx, "ovsdb-tool", "needs-conversion", db, schema)
				if err != nil || strings.TrimSpace(old) != "yes" {
					return err
				}
				_, err = s.bin.Run(ctx, "ovsdb-tool", "convert", db, schema)
				return err
			}
			_, err := s.bin.Run(ctx, "ovsdb-tool", "create", db, schema)
			return err
		},
	}
}

// clusterMember makes the database of one server of a cluster: the first
// founds it, the others join.
func (s *Sandbox) clusterMember(i int) func(context.Context) error {
	db, local := s.path(s.nbNames()[i]+".db"), s.raft(i)
	args := []string{"join-cluster", db, "OVN_Northbound", local, s.raft(0)}
	if i == 0 {
		args = []string{"create-cluster", db, schemaNB, local}
	}
	return func(ctx context.Context) error {
		if exists(db) {
			return nil
		}
		_, err := s.bin.Run(ctx, "ovsdb-tool", args...)
		return err
	}
}

// raft is where a server of the cluster listens to the others.
func (s *Sandbox) raft(i int) string {
	if s.links != nil {
		return fmt.Sprintf("tcp:%s:%d", linkAddress(i).Addr(), raftPort)
	}
	return "unix:" + s.path(s.nbNames()[i]+".raft")
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (d *daemon) file(suffix string) string { return filepath.Join(d.dir, d.name+suffix) }

// sockets are the files that mean nothing once the process has ended.
func (d *daemon) sockets() []string {
	return []string{d.file(".sock"), d.file(".ctl"), d.file(".raft"), d.file(".pid")}
}

// files are all files that the process may have written.
func (d *daemon) files() []string {
	return append(d.sockets(), d.file(".db"), d.file(".log"), filepath.Join(d.dir, "."+d.name+".db.~lock~"))
}

// pidArg is the argument that tells the process from every other one.
func (d *daemon) pidArg() string { return "--pidfile=" + d.file(".pid") }

// start starts the process in the background and returns when it is ready.
func (d *daemon) start(ctx context.Context) error {
	if err := d.clear(); err != nil {
		return err
	}
	if err := d.prepare(ctx); err != nil {
		return fmt.Errorf("prepare the start of %s: %w", d.name, err)
	}
	args := append([]string{d.pidArg(), "--log-file=" + d.file(".log"), "-vconsole:off"}, d.args...)
	if d.bin.tied {
		ctx = context.WithoutCancel(ctx) // it lives on when the start is over
	} else {
		args = append([]string{"--detach"}, args...)
	}
	if !d.noUnixctl {
		args = append([]string{"--unixctl=" + d.file(".ctl")}, args...)
	}
	cmd := d.bin.Command(ctx, d.program, args...)
	// Nothing of the machine's own OVN and OVS is a default for these.
	cmd.Env = append(os.Environ(), "OVN_RUNDIR="+d.dir, "OVS_RUNDIR="+d.dir, "OVN_LOGDIR="+d.dir, "OVS_LOGDIR="+d.dir, "OVN_DBDIR="+d.dir, "OVS_DBDIR="+d.dir)
	begin := func() error {
		_, err := run(cmd, d.program, args)
		return err
	}
	if d.bin.tied {
		begin = func() error { return d.attend(cmd) }
	}
	if err := begin(); err != nil {
		return fmt.Errorf("%w (its log is %s)", err, d.file(".log"))
	}
	return nil
}

// attend starts the process as a child, and returns when it is ready.
func (d *daemon) attend(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", d.program, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	late := time.After(startTimeout)
	for !d.ready() {
		select {
		case err := <-ended:
			return fmt.Errorf("%s has ended: %w", d.program, err)
		case <-late:
			err := cmd.Process.Kill()
			<-ended
			return errors.Join(fmt.Errorf("%s is not ready after %v", d.program, startTimeout), err)
		case <-time.After(pollInterval):
		}
	}
	return nil
}

// ready tells whether the process has written its id, and a server answers.
func (d *daemon) ready() bool {
	if running, err := d.running(); err != nil || !running {
		return false
	}
	if d.program != "ovsdb-server" {
		return true
	}
	conn, err := net.Dial("unix", d.file(".sock"))
	return err == nil && conn.Close() == nil
}

// find returns the running process, nil when there is none: the one that the
// pid file names, if it was started with this pid file.
func (d *daemon) find() (*os.Process, error) {
	text, err := os.ReadFile(d.file(".pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the process id of %s: %w", d.name, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return nil, fmt.Errorf("read the process id of %s: %s holds %q", d.name, d.file(".pid"), text)
	}
	// The handle first, then the look: should the number go to another
	// process in between, the handle doesn't.
	process, err := os.FindProcess(pid)
	if err != nil {
		return nil, fmt.Errorf("find process %d of %s: %w", pid, d.name, err)
	}
	mine, err := d.owns(pid)
	if err != nil || !mine {
		return nil, errors.Join(err, process.Release())
	}
	return process, nil
}

// owns reports whether the process runs and is d's. One that has ended and was
// not waited for yet has no command line any more.
func (d *daemon) owns(pid int) (bool, error) {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the command line of process %d: %w", pid, err)
	}
	return slices.Contains(strings.Split(string(line), "\x00"), d.pidArg()), nil
}

func (d *daemon) running() (bool, error) {
	process, err := d.find()
	if process == nil {
		return false, err
	}
	return true, process.Release()
}

// stop ends the process if it runs, and removes what it leaves.
func (d *daemon) stop(ctx context.Context) error {
	process, err := d.find()
	if err != nil {
		return err
	}
	if process != nil {
		if err := d.end(ctx, process); err != nil {
			return errors.Join(fmt.Errorf("end process %d (%s): %w", process.Pid, d.name, err), process.Release())
		}
		if err := process.Release(); err != nil {
			return fmt.Errorf("release process %d (%s): %w", process.Pid, d.name, err)
		}
	}
	return d.clear()
}

// end sends SIGTERM and, after the time of patience, SIGKILL.
func (d *daemon) end(ctx context.Context, process *os.Process) error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		ended, err := ends(ctx, process, patience)
		if err != nil || ended {
			return err
		}
	}
	return fmt.Errorf("it runs %v after SIGKILL", patience)
}

// ends waits until the process has ended, which need not be a child, and
// reports whether it did in time. By then it holds no file and no lock.
func ends(ctx context.Context, process *os.Process, timeout time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for ctx.Err() == nil {
		var n int
		var err error
		// A process's handle is readable once it has ended (pidfd_open(2)).
		wait := func(fd uintptr) {
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(pollInterval.Milliseconds()))
		}
		if err := process.WithHandle(wait); err != nil {
			return errors.Is(err, os.ErrProcessDone), nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, fmt.Errorf("wait for its end: %w", err)
		}
		if n > 0 {
			return true, nil
		}
	}
	return false, nil
}

// clear removes the sockets and the pid file of a process that has ended.
func (d *daemon) clear() error {
	for _, file := range d.sockets() {
		if err := remove(file); err != nil {
			return err
		}
	}
	return nil
}
