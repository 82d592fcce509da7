package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	ovsclient "github.com/ovn-kubernetes/libovsdb/client"
	ovsmodel "github.com/ovn-kubernetes/libovsdb/model"

	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// perAttachment is how much memory a server may hold for each, in bytes.
const perAttachment = 8 << 10

// start is the start of a server on a database with many attachments, against
// libovsdb's cache of the columns that the server follows.
func (b *bench) start(ctx context.Context) ([]row, error) {
	attachments := b.size.started * b.size.attachments
	var ours, libovsdb []time.Duration
	var memory []float64
	err := b.on(ctx, func(box *lab.Sandbox) error {
		if err := b.fill(ctx, box); err != nil {
			return err
		}
		columns, err := b.followed(ctx, box)
		if err != nil {
			return err
		}
		for range b.rounds {
			resident := 0
			debug.FreeOSMemory() // what the round before has left
			err := errors.Join(
				timed(&libovsdb, func() error { return monitor(ctx, box.NB(), columns, attachments) }),
				b.timeStart(ctx, box, &ours, &resident))
			if err != nil {
				return err
			}
			memory = append(memory, float64(resident)/float64(attachments))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return []row{
		atMost(fmt.Sprintf("server start, %d attachments", attachments), show(median(ours)), "libovsdb's monitor "+show(median(libovsdb)), "libovsdb", pairwise(ours, libovsdb), 1.5),
		{name: "... resident memory", figure: fmt.Sprintf("%.1f kB per attachment", median(memory)/1024), target: "at most 8 kB", met: median(memory) <= perAttachment},
	}, nil
}

// fill applies VPCs, one by one.
func (b *bench) fill(ctx context.Context, box *lab.Sandbox) error {
	for i := range b.size.started {
		n := b.shop(b.size.attachments)
		n.vpc = fmt.Sprintf("vpc-%d", i)
		specs, err := b.writeSpecs(n, "start", n.vpc)
		if err != nil {
			return err
		}
		if _, err := b.apply(ctx, box.NB(), specs); err != nil {
			return err
		}
	}
	return nil
}

// followed are the columns by table that a server monitors.
func (b *bench) followed(ctx context.Context, box *lab.Sandbox) (map[string][]string, error) {
	p, err := newProxy(ctx, box.Dir(), box.NB())
	if err != nil {
		return nil, err
	}
	s, err := b.serve(ctx, "--nb", p.remote())
	if err == nil {
		err = s.stop()
	}
	_, closed := p.close()
	if err := errors.Join(err, closed); err != nil {
		return nil, err
	}
	if len(p.followed) == 0 {
		return nil, errors.New("the server follows nothing")
	}
	return p.followed, nil
}

// timeStart starts a server and ends it.
func (b *bench) timeStart(ctx context.Context, box *lab.Sandbox, series *[]time.Duration, resident *int) error {
	var s *served
	err := timed(series, func() (err error) {
		s, err = b.serve(ctx, "--nb", box.NB())
		return err
	})
	if err != nil {
		return err
	}
	*resident, err = residentOf(s.cmd.Process.Pid)
	return errors.Join(err, s.stop())
}

// residentOf is the memory of a process that is in RAM, in bytes (proc(5)).
func residentOf(pid int) (int, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, fmt.Errorf("reading the memory of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kilobytes, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")))
			return kilobytes << 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no memory", pid)
}

// monitor has libovsdb monitor columns into its cache.
func monitor(ctx context.Context, remote string, columns map[string][]string, attachments int) error {
	models, err := modelsOf(columns)
	if err != nil {
		return err
	}
	tables, err := ovsmodel.NewClientDBModel(nbdb.Northbound, models)
	if err != nil {
		return fmt.Errorf("preparing libovsdb: %w", err)
	}
	c, err := ovsclient.NewOVSDBClient(tables, ovsclient.WithEndpoint(remote))
	if err != nil {
		return fmt.Errorf("preparing libovsdb: %w", err)
	}
	if err := c.Connect(ctx); err != nil {
		return fmt.Errorf("connecting libovsdb: %w", err)
	}
	defer c.Close()
	if _, err := c.MonitorAll(ctx); err != nil {
		return fmt.Errorf("monitoring by libovsdb: %w", err)
	}
	if n := c.Cache().Table(tablePort).Len(); n < attachments {
		return fmt.Errorf("libovsdb's cache holds %d ports of %d", n, attachments)
	}
	return nil
}

// modelsOf are row types for libovsdb: those of the project, of which they
// have these columns, with plain strings for UUIDs.
func modelsOf(columns map[string][]string) (map[string]ovsmodel.Model, error) {
	models := map[string]ovsmodel.Model{}
	for _, r := range []nbdb.Row{&nbdb.NBGlobal{}, &nbdb.LogicalRouter{}, &nbdb.LogicalRouterPort{}, &nbdb.LogicalRouterPolicy{},
		&nbdb.LogicalSwitch{}, &nbdb.LogicalSwitchPort{}, &nbdb.ACL{}, &nbdb.PortGroup{}, &nbdb.DHCPOptions{}} {
		wanted, ok := columns[r.Table()]
		if !ok {
			continue
		}
		var fields []reflect.StructField
		for _, f := range reflect.VisibleFields(reflect.TypeOf(r).Elem()) {
			// libovsdb wants the columns of a table's index too: "name".
			if column := f.Tag.Get("ovsdb"); column == "_uuid" || column == "name" || slices.Contains(wanted, column) {
				// It tells tables by their types, so the table is in the name.
				fields = append(fields, reflect.StructField{Name: r.Table() + f.Name, Type: plain(f.Type), Tag: f.Tag})
			}
		}
		models[r.Table()] = reflect.New(reflect.StructOf(fields)).Interface()
	}
	if len(models) != len(columns) {
		return nil, fmt.Errorf("there are no row types for all of %v", slices.Sorted(maps.Keys(columns)))
	}
	return models, nil
}

// plain is a field's type with strings for UUIDs.
func plain(t reflect.Type) reflect.Type {
	switch t {
	case reflect.TypeFor[nbdb.UUID]():
		return reflect.TypeFor[string]()
	case reflect.TypeFor[[]nbdb.UUID]():
		return reflect.TypeFor[[]string]()
	case reflect.TypeFor[*nbdb.UUID]():
		return reflect.TypeFor[*string]()
	}
	return t
}
