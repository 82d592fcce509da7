package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// sandbox starts an empty database.
func (b *bench) sandbox(ctx context.Context) (*lab.Sandbox, error) {
	dir, err := os.MkdirTemp(b.dir, "nb-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	box, err := lab.SandboxUp(ctx, lab.SandboxOptions{Dir: dir, NoNorthd: true})
	if err != nil {
		return nil, err
	}
	// What ovn-northd writes where tunnels are by Geneve: with VXLAN, which is
	// assumed without it, large tiers would be refused.
	if _, err := box.NBCtl(ctx, "set", "NB_Global", ".", "options:max_tunid=16711680"); err != nil {
		return nil, errors.Join(err, box.Purge(context.WithoutCancel(ctx)))
	}
	return box, nil
}

// on runs f on an empty database of its own.
func (b *bench) on(ctx context.Context, f func(*lab.Sandbox) error) error {
	box, err := b.sandbox(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(box), box.Purge(context.WithoutCancel(ctx)))
}

// spent is what a process took.
type spent struct{ wall, processor time.Duration }

// carryOut runs the program with a command for files or folders to its end.
func (b *bench) carryOut(ctx context.Context, command, remote string, paths ...string) (spent, error) {
	args := []string{command, "--nb", remote, "--timeout", "10m"}
	for _, path := range paths {
		args = append(args, "-f", path)
	}
	cmd := exec.CommandContext(ctx, b.program, args...)
	var faults strings.Builder
	cmd.Stderr = &faults
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return spent{}, fmt.Errorf("%s %s: %w: %.1000s", filepath.Base(b.program), command, err, faults.String())
	}
	return spent{time.Since(start), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}, nil
}

// apply is the time of a process that applies files or folders.
func (b *bench) apply(ctx context.Context, remote string, paths ...string) (time.Duration, error) {
	s, err := b.carryOut(ctx, "apply", remote, paths...)
	return s.wall, err
}

// observed applies through a proxy, and returns what was written.
func (b *bench) observed(ctx context.Context, box *lab.Sandbox, paths ...string) ([]sent, error) {
	p, err := newProxy(ctx, box.Dir(), box.NB())
	if err != nil {
		return nil, err
	}
	_, err = b.apply(ctx, p.remote(), paths...)
	writes, closed := p.close()
	return writes, errors.Join(err, closed)
}

func (b *bench) title() string {
	return fmt.Sprintf("1 VPC, %d tiers, %d attachments, %d rules", b.size.tiers, b.size.attachments, b.size.tiers*b.size.rules)
}

// baselines are the rows that an apply has written, for those who write the
// same by other means.
type baselines struct {
	rows  *content
	file  string     // by hand
	tx    int        // in so many transactions
	lists [][]string // by ovn-nbctl
	count int        // commands in the lists
}

func (b *bench) baselinesOf(ctx context.Context, specs string) (*baselines, error) {
	base, cut := &baselines{}, []sent(nil)
	err := b.on(ctx, func(box *lab.Sandbox) (err error) {
		if cut, err = b.observed(ctx, box, specs); err != nil {
			return err
		}
		base.rows, err = readContent(ctx, box.NB())
		return err
	})
	if err != nil {
		return nil, err
	}
	base.tx = len(cut)
	if base.file, err = b.rawFile(base.rows, cut); err != nil {
		return nil, err
	}
	groups := base.rows.commands()
	for _, group := range groups {
		base.count += len(group)
	}
	base.lists, err = chains(groups)
	return base, err
}

// first is the first apply of a VPC, against the same rows by hand and by
// ovn-nbctl.
func (b *bench) first(ctx context.Context) ([]row, error) {
	specs, err := b.writeSpecs(b.shop(b.size.attachments), "first")
	if err != nil {
		return nil, err
	}
	base, err := b.baselinesOf(ctx, specs)
	if err != nil {
		return nil, err
	}
	var ours, raw, nbctl []time.Duration
	var each time.Duration
	keep := func(series *[]time.Duration, write func(*lab.Sandbox) (time.Duration, error), then func(*lab.Sandbox) error) error {
		return b.on(ctx, func(box *lab.Sandbox) error {
			took, err := write(box)
			if *series = append(*series, took); err != nil || then == nil {
				return err
			}
			return then(box)
		})
	}
	for i := range b.rounds {
		err := errors.Join(
			keep(&ours, func(box *lab.Sandbox) (time.Duration, error) { return b.apply(ctx, box.NB(), specs) }, nil),
			keep(&raw, func(box *lab.Sandbox) (time.Duration, error) { return sendFile(ctx, base.file, box.NB()) },
				func(box *lab.Sandbox) error { return sameRows(ctx, base.rows, box.NB()) }),
			keep(&nbctl, func(box *lab.Sandbox) (time.Duration, error) { return chained(ctx, box, base.lists) },
				func(box *lab.Sandbox) (err error) {
					if i == 0 {
						each, err = b.oneByOne(ctx, box, base.count)
					}
					return err
				}))
		if err != nil {
			return nil, err
		}
	}
	us := show(median(ours))
	return []row{
		atMost("first apply: "+b.title(), us, fmt.Sprintf("raw %s (%d tx)", show(median(raw)), base.tx), "raw", pairwise(ours, raw), 4),
		atLeast("", us, fmt.Sprintf("nbctl %s (processes: %d)", show(median(nbctl)), len(base.lists)), "faster than nbctl", pairwise(nbctl, ours), 8),
		{figure: us, baseline: "nbctl-each " + show(each) + " (extrapolated)", ratio: fmt.Sprintf("%.0f", each.Seconds()/median(ours).Seconds())},
	}, nil
}

// after measures a second apply against the first, in fresh databases; change
// alters the specs between.
func (b *bench) after(ctx context.Context, name string, change func(dir string) (paths []string, err error)) (first, second []time.Duration, writes []sent, err error) {
	// Each round begins with the specs as they were first.
	for i := range b.rounds + 1 {
		dir, err := b.writeSpecs(b.shop(b.size.attachments), name)
		if err != nil {
			return nil, nil, nil, err
		}
		err = b.on(ctx, func(box *lab.Sandbox) error {
			f, err := b.apply(ctx, box.NB(), dir)
			if err != nil {
				return err
			}
			paths, err := change(dir)
			if err != nil {
				return err
			}
			// The first round is watched, the others are timed.
			if i == 0 {
				writes, err = b.observed(ctx, box, paths...)
				return err
			}
			s, err := b.apply(ctx, box.NB(), paths...)
			first, second = append(first, f), append(second, s)
			return err
		})
		if err != nil {
			return nil, nil, nil, err
		}
	}
	return first, second, writes, nil
}

func (b *bench) again(ctx context.Context) ([]row, error) {
	first, second, writes, err := b.after(ctx, "again", func(dir string) ([]string, error) { return []string{dir}, nil })
	if err != nil {
		return nil, err
	}
	return []row{
		atMost("apply again without change, fresh process", show(median(second)), "first apply "+show(median(first)), "first apply", pairwise(second, first), 0.6),
		{name: "", figure: fmt.Sprintf("%d transactions", len(writes)), target: "none", met: len(writes) == 0},
	}, nil
}

// rule adds a rule and applies the file of its list alone; then all files, which
// can't take less than applying them again without a change.
func (b *bench) rule(ctx context.Context) ([]row, error) {
	var rows []row
	for _, c := range []struct {
		name  string
		whole bool
		limit float64
	}{{"one rule added, its list applied, fresh process", false, 0.5}, {"one rule added, all files applied, fresh process", true, 0.6}} {
		first, second, writes, err := b.after(ctx, "rule", func(dir string) ([]string, error) {
			path, err := b.shop(0).oneRuleMore(dir)
			if c.whole {
				path = dir
			}
			return []string{path}, err
		})
		if err != nil {
			return nil, err
		}
		if len(writes) != 1 {
			return nil, fmt.Errorf("%s: %d transactions", c.name, len(writes))
		}
		rows = append(rows,
			atMost(c.name, show(median(second)), "first apply "+show(median(first)), "first apply", pairwise(second, first), c.limit),
			row{name: "", figure: fmt.Sprintf("transaction of %d B", len(writes[0].request)), target: "under 4096 B", met: len(writes[0].request) < 4096})
	}
	return rows, nil
}
