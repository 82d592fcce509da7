package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// SandboxOptions say what a sandbox consists of. They stay with its folder:
// a sandbox that is there is not turned into another.
type SandboxOptions struct {
	// Dir is the folder that holds everything: databases, sockets, logs, pid
	// files. It is made if absent; an empty one is taken.
	Dir string `json:"-"`
	// NoNorthd leaves the southbound database and ovn-northd away.
	NoNorthd bool `json:"noNorthd,omitempty"`
	// Root takes the programs from an unpacked Debian (needs root); see
	// Binaries.
	Root string `json:"root,omitempty"`
	// VXLAN registers a chassis with an encapsulation of this type, so that
	// OVN counts with its limits: 4095 datapaths, 2047 ports on each.
	VXLAN bool `json:"vxlan,omitempty"`
	// NBServers is the number of servers of the northbound database: 0 or 1 a
	// standalone one, more a cluster (ovsdb(7), Clustered Database Service
	// Model).
	NBServers int `json:"nbServers,omitempty"`
}

// Sandbox is a private OVN without hypervisors: ovsdb-servers for the
// northbound and the southbound database, and ovn-northd between them, all on
// unix sockets in one folder. Its processes outlive the one that started them.
type Sandbox struct {
	dir     string
	options SandboxOptions
	bin     *Binaries
	// inside runs what starts processes where these are to be: in the network
	// namespace of a lab.
	inside func(func() error) error
	// sbRemote is where the southbound database listens too; "" is nowhere.
	sbRemote string
	// links are between the servers of a cluster, nil where they share a machine.
	links *links
}

const (
	// marker is the file that makes a folder a sandbox's; it holds the options.
	marker = "sandbox.json"
	// maxSocketPath is the longest path of a unix socket, in bytes (unix(7):
	// sun_path has 108 with the terminating zero).
	maxSocketPath = 107
	// longestSocket is the longest name of a socket in a sandbox's folder.
	longestSocket = "northd.ctl"
	// startTimeout bounds the start of a sandbox where ctx has no deadline.
	startTimeout = time.Minute
)

// SandboxUp starts the sandbox of o.Dir, or what of it isn't running, and
// returns when its ovn-northd has realised what is in the northbound
// database. It refuses a folder that holds something else, and a sandbox that
// was made with other options. When it fails, it ends what it started.
func SandboxUp(ctx context.Context, o SandboxOptions) (*Sandbox, error) {
	s, err := newSandbox(o)
	if err != nil {
		return nil, fmt.Errorf("start a sandbox: %w", err)
	}
	if err := s.up(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// up makes the sandbox and starts it.
func (s *Sandbox) up(ctx context.Context) error {
	if err := s.claim(); err != nil {
		return fmt.Errorf("start a sandbox in %s: %w", s.dir, err)
	}
	return s.Start(ctx)
}

// OpenSandbox returns the sandbox that was made in dir, running or not.
func OpenSandbox(dir string) (*Sandbox, error) {
	data, err := os.ReadFile(filepath.Join(dir, marker))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open the sandbox in %s: there is none (\"sandbox up\" makes one)", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open the sandbox in %s: %w", dir, err)
	}
	o := SandboxOptions{}
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, fmt.Errorf("open the sandbox in %s: read %s: %w", dir, marker, err)
	}
	o.Dir = dir
	s, err := newSandbox(o)
	if err != nil {
		return nil, fmt.Errorf("open the sandbox in %s: %w", dir, err)
	}
	return s, nil
}

func newSandbox(o SandboxOptions) (*Sandbox, error) {
	if o.Dir == "" {
		return nil, errors.New("no folder given")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the folder %s: %w", o.Dir, err)
	}
	if n := len(filepath.Join(dir, longestSocket)); n > maxSocketPath {
		return nil, fmt.Errorf("folder %s: the paths of its sockets would have up to %d characters, and %d is the limit (unix(7)): choose a folder at least %d shorter",
			dir, n, maxSocketPath, n-maxSocketPath)
	}
	// What stands in a socket's remote, in a list of them, or in --remote.
	if strings.ContainsAny(dir, ",;") {
		return nil, fmt.Errorf("folder %s: no comma or semicolon may stand in the path of a database's socket", dir)
	}
	if o.NBServers < 1 {
		o.NBServers = 1
	}
	programs := []string{"ovsdb-server", "ovsdb-tool", "ovsdb-client", "ovn-nbctl"}
	if !o.NoNorthd {
		programs = append(programs, "ovn-northd", "ovn-sbctl")
	}
	bin, err := FindBinaries(o.Root, dir, programs...)
	if err != nil {
		return nil, err
	}
	o.Dir = dir
	here := func(f func() error) error { return f() }
	return &Sandbox{dir: dir, options: o, bin: bin, inside: here}, nil
}

// claim makes the folder the sandbox's.
func (s *Sandbox) claim() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	switch old, err := os.ReadFile(s.path(marker)); {
	case err == nil:
		o := SandboxOptions{}
		if err := json.Unmarshal(old, &o); err != nil {
			return fmt.Errorf("read %s: %w", marker, err)
		}
		if o.Dir = s.dir; o != s.options {
			return fmt.Errorf("it was made %s: \"sandbox down --purge\" first, or --dir another", differing(o, s.options))
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read %s: %w", marker, err)
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("read the folder: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("the folder holds %q, which isn't a sandbox's: choose an empty one", entries[0].Name())
	}
	data, err := json.Marshal(s.options)
	if err != nil {
		return fmt.Errorf("write %s: %w", marker, err)
	}
	if err := os.WriteFile(s.path(marker), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", marker, err)
	}
	return nil
}

// differing says what about a sandbox is not as it is wanted now.
func differing(had, want SandboxOptions) string {
	switch {
	case had.VXLAN && !want.VXLAN:
		return "with --vxlan"
	case want.VXLAN && !had.VXLAN:
		return "without --vxlan"
	}
	return "with other options"
}

// lock keeps other processes from starting or stopping the same sandbox until
// the function it returns is called.
func (s *Sandbox) lock() (unlock func(), err error) {
	dir, err := os.Open(s.dir)
	if err != nil {
		return nil, fmt.Errorf("lock the folder: %w", err)
	}
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the folder %s: %w", s.dir, err), dir.Close())
	}
	return func() { _ = dir.Close() }, nil // closing a folder opened to read loses nothing
}

// Start starts what of the sandbox isn't running, as SandboxUp does.
func (s *Sandbox) Start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	unlock, err := s.lock()
	if err != nil {
		return fmt.Errorf("start the sandbox in %s: %w", s.dir, err)
	}
	defer unlock()
	var started []daemon
	defer func() {
		if err != nil {
			err = fmt.Errorf("start the sandbox in %s: %w", s.dir, err)
			for _, d := range slices.Backward(started) {
				err = errors.Join(err, d.stop(context.WithoutCancel(ctx)))
			}
		}
	}()
	for _, d := range s.daemons() {
		running, err := d.running()
		if err != nil {
			return err
		}
		if running {
			continue
		}
		if err := d.inside(func() error { return d.start(ctx) }); err != nil {
			return err
		}
		started = append(started, d)
	}
	return s.settle(ctx)
}

// settle makes the databases' single rows, registers the chassis of
// SandboxOptions.VXLAN, and waits for ovn-northd.
func (s *Sandbox) settle(ctx context.Context) error {
	if err := s.connected(ctx); err != nil {
		return err
	}
	if err := s.initialise(ctx); err != nil {
		return err
	}
	if s.options.NoNorthd {
		return nil
	}
	if s.options.VXLAN {
		// 192.0.2.0/24 is for documentation (RFC 5737): nobody answers there.
		if _, err := s.SBCtl(ctx, "--may-exist", "chassis-add", "sandbox", "vxlan", "192.0.2.1"); err != nil {
			return err
		}
		if _, err := s.NBCtl(ctx, "wait-until", "NB_Global", ".", "options:max_tunid=4095"); err != nil {
			return err
		}
	}
	_, err := s.NBCtl(ctx, "--wait=sb", "sync")
	return err
}

// initialise makes the northbound database's single row. ovn-nbctl doesn't try again
// where the lead of a cluster passes on while it connects.
func (s *Sandbox) initialise(ctx context.Context) error {
	for {
		_, err := s.NBCtl(ctx, "init")
		if err == nil || len(s.nbNames()) == 1 || !strings.Contains(err.Error(), "database connection failed") {
			return err
		}
		if wait := s.connected(ctx); wait != nil {
			return errors.Join(err, wait)
		}
	}
}

// connected waits until every server of the northbound database knows a
// leader; a standalone one is its own.
func (s *Sandbox) connected(ctx context.Context) error {
	for _, name := range s.nbNames() {
		if _, err := s.bin.Run(ctx, "ovsdb-client", "wait", "unix:"+s.path(name+".sock"), "OVN_Northbound", "connected"); err != nil {
			return err
		}
	}
	return nil
}

// Down ends the processes of the sandbox, and no others, and removes their
// sockets. The databases stay. It is no error if nothing runs.
func (s *Sandbox) Down(ctx context.Context) error {
	names := make([]string, 0, 3)
	for _, d := range s.daemons() {
		names = append(names, d.name)
	}
	return s.Stop(ctx, names...)
}

// Stop ends single processes of the sandbox: "nb" (in a cluster "nb1", "nb2"
// and so on), "sb", "northd". Start brings them back.
func (s *Sandbox) Stop(ctx context.Context, names ...string) error {
	if !exists(s.dir) {
		return nil
	}
	unlock, err := s.lock()
	if err != nil {
		return fmt.Errorf("stop the sandbox in %s: %w", s.dir, err)
	}
	defer unlock()
	known := s.daemons()
	for _, name := range names {
		if !slices.ContainsFunc(known, func(d daemon) bool { return d.name == name }) {
			return fmt.Errorf("stop the sandbox in %s: it has no process %q", s.dir, name)
		}
	}
	var errs []error
	for _, d := range slices.Backward(known) {
		if slices.Contains(names, d.name) {
			errs = append(errs, d.stop(ctx))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop the sandbox in %s: %w", s.dir, err)
	}
	return nil
}

// Signal sends a signal to a process of the sandbox, by the names of Stop. One
// that is killed is gone when it returns.
func (s *Sandbox) Signal(ctx context.Context, name string, signal syscall.Signal) error {
	for _, d := range s.daemons() {
		if d.name != name {
			continue
		}
		process, err := d.find()
		if err == nil && process == nil {
			err = os.ErrProcessDone
		}
		if err == nil {
			err = process.Signal(signal)
		}
		if err == nil && signal == syscall.SIGKILL {
			_, err = ends(ctx, process, patience)
		}
		if process != nil {
			err = errors.Join(err, process.Release())
		}
		if err != nil {
			return fmt.Errorf("send %s of the sandbox in %s the signal %q: %w", name, s.dir, signal, err)
		}
		return nil
	}
	return fmt.Errorf("send a signal in the sandbox in %s: it has no process %q", s.dir, name)
}

// Purge is Down and removes what the sandbox has written, and the folder when
// nothing else is in it.
func (s *Sandbox) Purge(ctx context.Context) error {
	if err := s.Down(ctx); err != nil {
		return err
	}
	for _, d := range s.daemons() {
		for _, file := range d.files() {
			if err := remove(file); err != nil {
				return fmt.Errorf("purge the sandbox in %s: %w", s.dir, err)
			}
		}
	}
	if err := remove(s.path(marker)); err != nil {
		return fmt.Errorf("purge the sandbox in %s: %w", s.dir, err)
	}
	if err := remove(s.dir); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
		return fmt.Errorf("purge the sandbox in %s: %w", s.dir, err)
	}
	return nil
}

// PurgeSandboxes purges every sandbox below folder: what a test run that was
// cut short has left in its temporary folder, for instance.
func PurgeSandboxes(ctx context.Context, folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // purged, or removed by another process
		}
		if err != nil || entry.Name() != marker {
			return err
		}
		s, err := OpenSandbox(filepath.Dir(path))
		if err != nil {
			return err
		}
		return s.Purge(ctx)
	})
}

// Running reports whether all processes of the sandbox run.
func (s *Sandbox) Running() (bool, error) {
	for _, d := range s.daemons() {
		if running, err := d.running(); err != nil || !running {
			return false, err
		}
	}
	return true, nil
}

// Dir is the sandbox's folder, absolute.
func (s *Sandbox) Dir() string { return s.dir }

// Binaries are the programs that the sandbox runs.
func (s *Sandbox) Binaries() *Binaries { return s.bin }

// NB is the remote of the northbound database, as ovn-nbctl's --db takes it:
// of a cluster all of them, with commas between.
func (s *Sandbox) NB() string {
	var remotes []string
	for _, name := range s.nbNames() {
		remotes = append(remotes, "unix:"+s.path(name+".sock"))
	}
	return strings.Join(remotes, ",")
}

// SB is the remote of the southbound database; "" with NoNorthd.
func (s *Sandbox) SB() string {
	if s.options.NoNorthd {
		return ""
	}
	return "unix:" + s.path("sb.sock")
}

// Env are the variables that make OVN's tools and ovn-vpc use the sandbox.
func (s *Sandbox) Env() []string {
	env := []string{"OVN_NB_DB=" + s.NB()}
	if sb := s.SB(); sb != "" {
		env = append(env, "OVN_SB_DB="+sb)
	}
	return env
}

// ctlTimeout ends a tool, in seconds, whose caller was killed.
const ctlTimeout = "--timeout=300"

// NBCtl runs ovn-nbctl on the northbound database; see Binaries.Run.
func (s *Sandbox) NBCtl(ctx context.Context, args ...string) (string, error) {
	return s.bin.Run(ctx, "ovn-nbctl", append([]string{"--db=" + s.NB(), ctlTimeout}, args...)...)
}

// SBCtl runs ovn-sbctl on the southbound database; see Binaries.Run.
func (s *Sandbox) SBCtl(ctx context.Context, args ...string) (string, error) {
	return s.bin.Run(ctx, "ovn-sbctl", append([]string{"--db=" + s.SB(), ctlTimeout}, args...)...)
}

func (s *Sandbox) path(name string) string { return filepath.Join(s.dir, name) }

// remove is os.Remove for a file that may be absent.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}
