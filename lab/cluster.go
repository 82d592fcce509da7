package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
)

// Cluster is a sandbox whose northbound database is a cluster of servers that
// reach each other by links: each has a network namespace of its own, and a
// bridge joins them. Clients use the servers' unix sockets, which no link is
// part of. It needs root, and goes with the process that has made it (Sweep).
type Cluster struct {
	*Sandbox
}

const (
	// raftPort is where servers of a cluster listen to each other (ovsdb(7)).
	raftPort = 6643
	// linkDevice is a server's end of its link.
	linkDevice = "eth0"
)

// linkAddress is a server's on its link (RFC 5737: 192.0.2.0/24 is nobody's).
func linkAddress(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 24)
}

// links are the network of a cluster.
type links struct {
	middle *namespace
	nodes  []*namespace // by server
}

// ClusterUp is SandboxUp for a cluster with links.
func ClusterUp(ctx context.Context, o SandboxOptions) (*Cluster, error) {
	s, err := newSandbox(o)
	if err != nil {
		return nil, fmt.Errorf("start a cluster: %w", err)
	}
	if s.links, err = newLinks(ctx, s.options.NBServers); err != nil {
		return nil, fmt.Errorf("start a cluster: %w", err)
	}
	if err := s.up(ctx); err != nil {
		return nil, errors.Join(err, s.links.delete(ctx))
	}
	return &Cluster{s}, nil
}

// newLinks makes the network, under a name of this process that is free.
func newLinks(ctx context.Context, servers int) (*links, error) {
	l := &links{}
	id := ""
	for n := 0; l.middle == nil; n++ {
		id = fmt.Sprintf("%s%d-%d", namePrefix, os.Getpid(), n)
		middle, err := newNamespace(ctx, id+"-links")
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		l.middle = middle
	}
	if err := l.connect(ctx, id, servers); err != nil {
		return nil, errors.Join(fmt.Errorf("link the servers: %w", err), l.delete(ctx))
	}
	return l, nil
}

func (l *links) connect(ctx context.Context, id string, servers int) error {
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: underlayBridge, MTU: underlayMTU}}
	if err := errors.Join(l.middle.link.LinkAdd(bridge), l.middle.up(underlayBridge)); err != nil {
		return err
	}
	for i := range servers {
		node, err := newNamespace(ctx, fmt.Sprintf("%s-nb%d", id, i+1))
		if err != nil {
			return err
		}
		l.nodes = append(l.nodes, node)
		port := fmt.Sprintf("nb%d", i+1)
		if err := l.middle.veth(ctx, port, node, linkDevice, nil, underlayMTU); err != nil {
			return err
		}
		end, err := l.middle.link.LinkByName(port)
		if err == nil {
			err = l.middle.link.LinkSetMaster(end, bridge)
		}
		if err = errors.Join(err, node.address(linkDevice, linkAddress(i))); err != nil {
			return err
		}
	}
	return nil
}

func (l *links) delete(ctx context.Context) error {
	var errs []error
	for _, node := range l.nodes {
		errs = append(errs, node.delete(ctx))
	}
	return errors.Join(append(errs, l.middle.delete(ctx))...)
}

// Servers are the names of the servers, as Signal and Stop take them.
func (c *Cluster) Servers() []string { return c.nbNames() }

// Socket is the remote of one server.
func (c *Cluster) Socket(server string) string { return "unix:" + c.path(server+".sock") }

// Leader is the server that leads, "" if none does. One that has been cut off
// takes itself for the leader for a while: of two the one of the later term counts.
func (c *Cluster) Leader(ctx context.Context) string {
	leader, latest := "", -1
	for _, name := range c.nbNames() {
		// One that hangs or has ended can't be asked, and does not lead.
		status, err := c.bin.Run(ctx, "ovs-appctl", "--timeout=1", "-t", c.path(name+".ctl"), "cluster/status", "OVN_Northbound")
		if err != nil || !strings.Contains(status, "\nRole: leader\n") {
			continue
		}
		_, rest, _ := strings.Cut(status, "\nTerm: ")
		number, _, _ := strings.Cut(rest, "\n")
		if term, err := strconv.Atoi(number); err == nil && term > latest {
			leader, latest = name, term
		}
	}
	return leader
}

// SetLink takes the link of a server down or up.
func (c *Cluster) SetLink(server string, up bool) error {
	for i, name := range c.nbNames() {
		if name != server {
			continue
		}
		end, err := c.links.middle.link.LinkByName(fmt.Sprintf("nb%d", i+1))
		if err == nil && up {
			err = c.links.middle.link.LinkSetUp(end)
		} else if err == nil {
			err = c.links.middle.link.LinkSetDown(end)
		}
		if err != nil {
			return fmt.Errorf("set the link of %s: %w", server, err)
		}
		return nil
	}
	return fmt.Errorf("set the link of %s: there is no such server", server)
}

// Purge is the sandbox's, and removes the links.
func (c *Cluster) Purge(ctx context.Context) error {
	return errors.Join(c.Sandbox.Purge(ctx), c.links.delete(ctx))
}
