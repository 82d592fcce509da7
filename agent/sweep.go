package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// sweep removes what bears the agent's mark in the kernel and that neither Open
// vSwitch's database nor anything wanted accounts for: what is left where
// somebody has taken an interface out of that database by hand.
func (s *watch) sweep(ctx context.Context, want map[string]*wanted, have map[string][]plugged) error {
	var errs []error
	orphan := func(alias string) bool {
		port, ours := strings.CutPrefix(alias, markPrefix(s.kernel.owner, s.chassis))
		if !ours || want[port] != nil || len(have[port]) > 0 || s.queue.busy()[port] {
			return false
		}
		err := (&task{watch: s, port: port}).confirm(ctx)
		errs = append(errs, err)
		return err == nil
	}
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("listing interfaces: %w", err)
	}
	for _, link := range links {
		if a := link.Attrs(); orphan(a.Alias) {
			s.o.Log.InfoContext(ctx, "removing a leftover", "interface", a.Name)
			errs = append(errs, netlink.LinkDel(link))
		}
	}
	entries, err := os.ReadDir(s.kernel.netnsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, fmt.Errorf("listing network namespaces: %w", err))
	}
	for _, entry := range entries {
		path := filepath.Join(s.kernel.netnsDir, entry.Name())
		if alias := aliasAt(path); orphan(alias) {
			s.o.Log.InfoContext(ctx, "removing a leftover", "namespace", path)
			errs = append(errs, removeNetns(path, alias))
		}
	}
	return errors.Join(errs...)
}

// aliasAt is the mark of a namespace, "" where there is none to be had.
func aliasAt(path string) string {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil || st.Type != unix.NSFS_MAGIC {
		return ""
	}
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return ""
	}
	defer ns.Close()
	alias, err := loopbackAlias(ns)
	if err != nil {
		return "" // a namespace of another type
	}
	return alias
}
