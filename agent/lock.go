package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// exclude makes this the only agent of its owner and chassis on the hypervisor,
// until close: two would both run the hooks. The kernel gives the lock up when
// the agent ends in whatever way; the file stays.
func (a *Agent) exclude(chassis string) error {
	path := filepath.Join(filepath.Dir(a.o.NetnsDir), "ovn-vpc-agent-"+hash(a.o.Owner, chassis)[:12]+".lock")
	if a.lock != nil && a.lock.Name() == path {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of the agent's lock: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("opening the agent's lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errors.New("another agent of this owner and chassis runs here")
	}
	if err != nil {
		return errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
	}
	if a.lock != nil {
		err = a.lock.Close()
	}
	a.lock = f
	return err
}
