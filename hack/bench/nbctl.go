package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// command is one of ovn-nbctl's, with its arguments.
type command []string

// commands are those that somebody would type for the rows of a content, each
// switch with what belongs to it in a group that one process has to carry out:
// they refer to rows by names (ovn-nbctl(8), --id). Marks and stored specs in
// external_ids are left away.
func (c *content) commands() [][]command {
	m := &maker{rows: map[string]entry{}, used: map[string]bool{}}
	for _, table := range c.tables() {
		for _, e := range c.rows[table] {
			m.rows[e.uuid] = e
		}
	}
	var shared []command
	for _, e := range c.rows["Logical_Router"] {
		shared = append(shared, command{"lr-add", e.text("name")})
		for _, uuid := range e.set("ports") {
			port := m.rows[uuid]
			shared = append(shared, append(command{"lrp-add", e.text("name"), port.text("name"), port.text("mac")}, port.set("networks")...))
		}
	}
	groups := [][]command{shared}
	for _, e := range c.rows[tableSwitch] {
		groups = append(groups, m.network(e))
	}
	var homes []command
	for _, e := range c.rows["Port_Group"] {
		homes = append(homes, command{"pg-add", e.text("name")})
		homes = append(homes, m.rules("port-group", e)...)
	}
	return append(groups, homes)
}

// maker makes commands.
type maker struct {
	rows map[string]entry // by UUID
	used map[string]bool  // rows that have a command
}

// network are the commands of a switch with its ports and rules.
func (m *maker) network(e entry) []command {
	name := e.text("name")
	commands := append([]command{{"ls-add", name}}, m.rules("switch", e)...)
	for _, uuid := range e.set("ports") {
		port := m.rows[uuid]
		p := port.text("name")
		commands = append(commands, command{"lsp-add", name, p})
		if kind := port.text("type"); kind != "" {
			commands = append(commands, command{"lsp-set-type", p, kind})
		}
		if addresses := port.set("addresses"); len(addresses) > 0 {
			commands = append(commands, append(command{"lsp-set-addresses", p}, addresses...))
		}
		if security := port.set("port_security"); len(security) > 0 {
			commands = append(commands, append(command{"lsp-set-port-security", p}, security...))
		}
		if options := port.pairs("options"); len(options) > 0 {
			set := command{"lsp-set-options", p}
			for _, key := range slices.Sorted(maps.Keys(options)) {
				set = append(set, key+"="+options[key])
			}
			commands = append(commands, set)
		}
		for _, column := range []string{"dhcpv4_options", "dhcpv6_options"} {
			for _, uuid := range port.set(column) {
				commands = append(commands, m.dhcp(uuid)...)
				commands = append(commands, command{"set", tablePort, p, column + "=@" + symbol(uuid)})
			}
		}
	}
	return commands
}

func symbol(uuid string) string { return "d" + strings.ReplaceAll(uuid, "-", "") }

// dhcp makes DHCP options where that is still to be done.
func (m *maker) dhcp(uuid string) []command {
	if m.used[uuid] {
		return nil
	}
	m.used[uuid] = true
	e := m.rows[uuid]
	create := command{"--id=@" + symbol(uuid), "create", "DHCP_Options", "cidr=" + strconv.Quote(e.text("cidr"))}
	options := e.pairs("options")
	for _, key := range slices.Sorted(maps.Keys(options)) {
		create = append(create, "options:"+key+"="+strconv.Quote(options[key]))
	}
	return []command{create}
}

// rules are the commands for rows of ACL that no switch or port group has had
// before.
func (m *maker) rules(kind string, e entry) []command {
	var commands []command
	for _, uuid := range e.set("acls") {
		if m.used[uuid] {
			continue
		}
		m.used[uuid] = true
		acl := m.rows[uuid]
		add := command{"--type=" + kind}
		if name := acl.text("name"); name != "" {
			add = append(add, "--name="+name)
		}
		commands = append(commands, append(add, "acl-add", e.text("name"), acl.text("direction"), strconv.Itoa(acl.number("priority")),
			acl.text("match"), acl.text("action")))
	}
	return commands
}

// stackForArguments gives programs the most room for arguments that Linux
// knows: a quarter of the stack's limit, and 6 MB at most (execve(2)).
const stackForArguments = 24 << 20

// argumentRoom raises the limit as far as it may, and returns the room in
// bytes.
func argumentRoom() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_STACK, &limit); err != nil {
		return 0, fmt.Errorf("reading the room for arguments: %w", err)
	}
	limit.Cur = max(limit.Cur, min(limit.Max, stackForArguments))
	if err := syscall.Setrlimit(syscall.RLIMIT_STACK, &limit); err != nil {
		return 0, fmt.Errorf("making room for arguments: %w", err)
	}
	const environment = 128 << 10
	return int(min(limit.Cur, stackForArguments)/4) - environment, nil
}

// chains puts groups of commands into as few argument lists as the kernel
// takes.
func chains(groups [][]command) ([][]string, error) {
	room, err := argumentRoom()
	if err != nil {
		return nil, err
	}
	var lists [][]string
	var list []string
	used := 0
	for _, group := range groups {
		var args []string
		size := 0
		for _, c := range group {
			args = append(append(args, "--"), c...)
		}
		for _, arg := range args {
			size += len(arg) + 1 + 8 // with its pointer
		}
		if used+size > room && len(list) > 0 {
			lists, list, used = append(lists, list), nil, 0
		}
		list, used = append(list, args...), used+size
	}
	return append(lists, list), nil
}

// chained carries out all commands in as few processes as possible.
func chained(ctx context.Context, box *lab.Sandbox, lists [][]string) (time.Duration, error) {
	start := time.Now()
	for _, list := range lists {
		cmd := box.Binaries().Command(ctx, "ovn-nbctl", append([]string{"--db=" + box.NB(), "--timeout=1800"}, list...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("ovn-nbctl with %d arguments: %w: %.500s", len(list), err, out)
		}
	}
	return time.Since(start), nil
}

// oneByOne is what a process for each command would take, by a sample of those
// of ports: half the commands cost what they do at first, half what they do in
// the end. The full database is full.
func (b *bench) oneByOne(ctx context.Context, full *lab.Sandbox, commands int) (time.Duration, error) {
	var first, last time.Duration
	err := b.on(ctx, func(empty *lab.Sandbox) (err error) {
		if first, err = b.sample(ctx, empty); err != nil {
			return err
		}
		last, err = b.sample(ctx, full)
		return err
	})
	return (first + last) / 2 * time.Duration(commands), err
}

// sample is the mean time of a process that adds a port.
func (b *bench) sample(ctx context.Context, box *lab.Sandbox) (time.Duration, error) {
	if _, err := box.NBCtl(ctx, "ls-add", "sample"); err != nil {
		return 0, err
	}
	start := time.Now()
	for i := range b.size.eachSample {
		if _, err := box.NBCtl(ctx, "lsp-add", "sample", "sample-"+strconv.Itoa(i)); err != nil {
			return 0, err
		}
	}
	return time.Since(start) / time.Duration(b.size.eachSample), nil
}
