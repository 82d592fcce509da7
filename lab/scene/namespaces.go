package scene

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/node"
)

// Namespaces is the stage of a lab in network namespaces.
type Namespaces struct {
	lab     *lab.Lab
	program string
	folder  string
	hvs     []*node.Client
	serving sync.WaitGroup

	mu  sync.Mutex
	err error
}

// NewNamespaces makes a lab a stage. program is ovn-vpc, folder the one with
// Example in it. The lab stays when the stage closes.
func NewNamespaces(ctx context.Context, l *lab.Lab, program, folder string) *Namespaces {
	n := &Namespaces{lab: l, program: program, folder: folder}
	for _, h := range l.Hypervisors {
		ours, theirs := net.Pipe()
		n.serving.Go(func() { n.fault(node.NewPluggingHost(h).Serve(ctx, theirs)) })
		n.hvs = append(n.hvs, node.NewClient(h.Name, ours))
	}
	return n
}

func (n *Namespaces) fault(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = errors.Join(n.err, err)
}

// Close ends what the stage began. The guests stay.
func (n *Namespaces) Close() error {
	for _, hv := range n.hvs {
		n.fault(hv.Close())
	}
	n.serving.Wait()
	return n.err
}

// Hypervisors are the lab's.
func (n *Namespaces) Hypervisors() []*node.Client { return n.hvs }

// OVNVPC runs ovn-vpc on the lab's databases.
func (n *Namespaces) OVNVPC(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, n.program, args...)
	cmd.Dir, cmd.Stdin = n.folder, strings.NewReader(input)
	cmd.Env = append(os.Environ(), n.lab.Sandbox().Env()...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("ovn-vpc %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return string(out), err
}
