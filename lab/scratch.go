package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Scratch is a sandbox for one use. A process of its own keeps it, and leaves
// nothing of it when the one that wanted it ends, however that does.
type Scratch struct {
	NB string `json:"nb"` // remotes
	SB string `json:"sb"`

	keeper  *exec.Cmd
	hold    io.Closer // the keeper's standard input
	faults  bytes.Buffer
	stopped bool
}

const (
	scratchPrefix = "ovn-vpc-scratch-"
	// scratchBox is the sandbox within the folder of a scratch.
	scratchBox = "box"
	// scratchTimeout bounds the purge of a scratch.
	scratchTimeout = time.Minute
)

// NewScratch starts the program at path with these arguments, the first its
// name: one that calls KeepScratch with its standard input and output. The
// caller ends with Close.
func NewScratch(ctx context.Context, path string, argv ...string) (*Scratch, error) {
	// The keeper is not to end with the one that it keeps for: neither by the
	// context nor by a signal to the terminal's processes.
	s := &Scratch{keeper: &exec.Cmd{Path: path, Args: argv, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}}
	s.keeper.Stderr = &s.faults
	hold, err := s.keeper.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a scratch OVN: %w", err)
	}
	s.hold = hold
	out, err := s.keeper.StdoutPipe()
	if err == nil {
		err = s.keeper.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start a scratch OVN: %w", err)
	}
	told := make(chan error, 1)
	go func() { told <- json.NewDecoder(out).Decode(s) }()
	select {
	case err = <-told:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("start a scratch OVN: %w", errors.Join(s.Close(), err))
	}
	return s, nil
}

// Close lets go of the scratch and returns when nothing of it is left.
func (s *Scratch) Close() error {
	if s.stopped {
		return nil
	}
	s.stopped = true
	if err := errors.Join(s.hold.Close(), s.keeper.Wait()); err != nil {
		return fmt.Errorf("end a scratch OVN: %w: %s", err, bytes.TrimSpace(s.faults.Bytes()))
	}
	return nil
}

// KeepScratch starts a sandbox in a new temporary folder, tells on out where
// it is, and purges it when in ends or ctx does. Its processes end with it also
// where it is killed. First it purges the files of those whose keeper was.
func KeepScratch(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	// Processes end with the thread that has started them (prctl(2),
	// PR_SET_PDEATHSIG), and threads may end before the program does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sweepScratches(ctx)
	dir, unlock, err := scratchFolder()
	if err != nil {
		return err
	}
	defer unlock()
	// Not to be interrupted: what is half started could not be purged.
	whole := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, purgeScratch(whole, dir)) }()
	s, err := newSandbox(SandboxOptions{Dir: filepath.Join(dir, scratchBox)})
	if err != nil {
		return fmt.Errorf("start a scratch OVN: %w", err)
	}
	s.bin.tied = true
	if err := s.up(whole); err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(Scratch{NB: s.NB(), SB: s.SB()}); err != nil {
		return fmt.Errorf("tell of the scratch OVN: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in) // whatever ends it
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return nil
}

// scratchFolder makes a folder for a scratch. It is locked as long as its
// keeper lives.
func scratchFolder() (dir string, unlock func(), err error) {
	for {
		if dir, err = os.MkdirTemp("", scratchPrefix); err != nil {
			return "", nil, fmt.Errorf("make the folder of a scratch OVN: %w", err)
		}
		if unlock, err = lockFolder(dir, syscall.LOCK_EX); err == nil && exists(dir) {
			return dir, unlock, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", nil, err
		}
		// A sweep has taken it for one without a keeper.
	}
}

func lockFolder(dir string, how int) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err == nil {
		if err = syscall.Flock(int(f.Fd()), how); err == nil {
			return func() { _ = f.Close() }, nil // closing a folder opened to read loses nothing
		}
		err = errors.Join(err, f.Close())
	}
	return nil, fmt.Errorf("lock the folder of a scratch OVN: %w", err)
}

func purgeScratch(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, scratchTimeout)
	defer cancel()
	err := PurgeSandboxes(ctx, dir)
	return errors.Join(err, os.RemoveAll(dir))
}

// sweepScratches purges this user's scratches that nobody keeps. What can't be
// purged is left: it is no reason not to go on.
func sweepScratches(ctx context.Context) {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*"))
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
			continue
		}
		if unlock, err := lockFolder(dir, syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			_ = purgeScratch(ctx, dir)
			unlock()
		}
	}
}
