// Package compose is the lab of docker-compose.yml as a stage for scenes: it
// runs ovn-vpc in the container of the translator, and reaches the service of
// each hypervisor through a command in its container.
package compose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/ovn-vpc/ovn-vpc/lab/node"
)

const (
	translator = "translator"
	// prefix begins the names of the hypervisors' services.
	prefix = "hv"
	// program is what carries calls from its standard input to a hypervisor's
	// service.
	program = "lab-node"
)

// Lab is the containers of a Compose project, which somebody has brought up.
type Lab struct {
	folder     string // of docker-compose.yml
	command    []string
	translator string // its container
	hvs        []*node.Client
}

// Open finds the lab of the docker-compose.yml in folder, by Compose v2 or by
// docker-compose 1.29. The lab stays when it is closed.
func Open(ctx context.Context, folder string) (_ *Lab, err error) {
	l := &Lab{folder: folder, command: []string{"docker-compose"}}
	if exec.CommandContext(ctx, "docker", "compose", "version").Run() == nil {
		l.command = []string{"docker", "compose"}
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open the lab of containers (is it up? make lab-up): %w", err), l.Close())
		}
	}()
	services, err := l.Compose(ctx, "config", "--services")
	if err != nil {
		return nil, err
	}
	if l.translator, err = l.container(ctx, translator); err != nil {
		return nil, err
	}
	for n := 1; strings.Contains("\n"+services, fmt.Sprintf("\n%s%d\n", prefix, n)); n++ {
		hv, err := l.dial(ctx, fmt.Sprintf("%s%d", prefix, n))
		if err != nil {
			return nil, err
		}
		l.hvs = append(l.hvs, hv)
	}
	return l, nil
}

// Compose runs Compose on the lab and returns what it prints. The connection to
// a hypervisor that this stops is broken from then on.
func (l *Lab) Compose(ctx context.Context, args ...string) (string, error) {
	argv := append(append([]string{}, l.command...), args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = l.folder
	return output(cmd)
}

// output runs cmd; an error holds what it complained of.
func output(cmd *exec.Cmd) (string, error) {
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	cmd.WaitDelay = time.Second // children of Compose may hold the pipes
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(complaints.Bytes()))
	}
	return string(out), err
}

// container returns the id of a service's container that runs.
func (l *Lab) container(ctx context.Context, name string) (string, error) {
	out, err := l.Compose(ctx, "ps", "-q", name)
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(out)
	if id == "" {
		return "", fmt.Errorf("the service %s has no container", name)
	}
	return id, nil
}

// dial starts the command that reaches a hypervisor's service.
func (l *Lab) dial(ctx context.Context, name string) (*node.Client, error) {
	id, err := l.container(ctx, name)
	if err != nil {
		return nil, err
	}
	c := &conn{cmd: exec.CommandContext(ctx, "docker", "exec", "-i", id, program)}
	c.cmd.Stderr = &c.complaints
	if c.WriteCloser, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("reach %s: %w", name, err)
	}
	if c.Reader, err = c.cmd.StdoutPipe(); err != nil {
		return nil, fmt.Errorf("reach %s: %w", name, err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("reach %s: %w", name, err)
	}
	return node.NewClient(name, c), nil
}

// conn is the standard input and output of a command.
type conn struct {
	io.Reader
	io.WriteCloser
	cmd        *exec.Cmd
	complaints bytes.Buffer
}

// Close ends the command, by the end of its input.
func (c *conn) Close() error {
	err := c.WriteCloser.Close()
	if waited := c.cmd.Wait(); waited != nil {
		err = errors.Join(err, fmt.Errorf("%s: %w: %s", strings.Join(c.cmd.Args, " "), waited, bytes.TrimSpace(c.complaints.Bytes())))
	}
	return err
}

// Close ends the connections to the hypervisors.
func (l *Lab) Close() error {
	var errs []error
	for _, hv := range l.hvs {
		errs = append(errs, hv.Close())
	}
	return errors.Join(errs...)
}

// Hypervisors are hv1, hv2 and so on.
func (l *Lab) Hypervisors() []*node.Client { return l.hvs }

// OVNVPC runs ovn-vpc in the translator's container.
func (l *Lab) OVNVPC(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "docker", append([]string{"exec", "-i", l.translator, "ovn-vpc"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	return output(cmd)
}
