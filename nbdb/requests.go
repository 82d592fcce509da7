package nbdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ovn-kubernetes/libovsdb/cache"
	ovsclient "github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Request is a logical port that a chassis is asked to bind (ovn-sb(5),
// Port_Binding), with the external_ids that ovn-northd copies from the
// northbound port.
type Request struct {
	LogicalPort string
	ExternalIDs map[string]string
}

// ErrNoChassis says that a chassis is not registered with OVN.
var ErrNoChassis = errors.New("the chassis is not registered in the southbound database")

// The rows of a watch of requests. The references to chassis serve conditions,
// and are no part of the monitor; datapath and key are an index of the table,
// without which libovsdb takes two rows for one.
type (
	watchedBinding struct {
		UUID        string            `ovsdb:"_uuid"`
		LogicalPort string            `ovsdb:"logical_port"`
		Datapath    string            `ovsdb:"datapath"`
		TunnelKey   int               `ovsdb:"tunnel_key"`
		Requested   *string           `ovsdb:"requested_chassis"`
		Additional  []string          `ovsdb:"requested_additional_chassis"`
		ExternalIDs map[string]string `ovsdb:"external_ids"`
	}
	// watchedOldBinding is of a schema before OVN 22.09.
	watchedOldBinding struct {
		UUID        string            `ovsdb:"_uuid"`
		LogicalPort string            `ovsdb:"logical_port"`
		Datapath    string            `ovsdb:"datapath"`
		TunnelKey   int               `ovsdb:"tunnel_key"`
		Requested   *string           `ovsdb:"requested_chassis"`
		ExternalIDs map[string]string `ovsdb:"external_ids"`
	}
	watchedChassis struct {
		UUID string `ovsdb:"_uuid"`
		Name string `ovsdb:"name"`
	}
)

const (
	// requestsEcho is the time between two looks at whether the server of a
	// watch still answers, and how long it may take.
	requestsEcho = 15 * time.Second
	tableBinding = "Port_Binding"
	tableChassis = "Chassis"
)

// Requests is a live copy of the ports that one chassis is asked to bind. The
// server sends changes of these ports and of the chassis' own row, and nothing
// else.
type Requests struct {
	conn ovsclient.Client
	old  bool // the schema is older than OVN 22.09

	once sync.Once
	done chan struct{}
}

// WatchRequests begins to watch on a connection of its own. changed is called
// after changes, perhaps once for several, and must return at once. It ends
// (Done) when the connection breaks or the chassis' row goes: then watch anew
// and compare the whole. It fails with ErrNoChassis for an unknown chassis. For
// a client of the Southbound.
func (c *Client) WatchRequests(ctx context.Context, chassis string, changed func()) (*Requests, error) {
	uuid, old, err := c.ownChassis(ctx, chassis)
	if err != nil {
		return nil, err
	}
	r := &Requests{old: old, done: make(chan struct{})}
	if err := r.begin(ctx, c, chassis, string(uuid), changed); err != nil {
		r.Close()
		return nil, fmt.Errorf("watching the requests of chassis %q: %w", chassis, err)
	}
	return r, nil
}

func (c *Client) ownChassis(ctx context.Context, name string) (uuid UUID, old bool, err error) {
	t := southboundType[chassisRow](tableChassis)
	results, err := c.selects(ctx, func(s *Schema) ([]ovsdb.Operation, error) {
		old = !s.Has(tableBinding, "requested_additional_chassis")
		op := selectAll(s, t)
		op.Where = []ovsdb.Condition{{Column: "name", Function: ovsdb.ConditionEqual, Value: name}}
		return []ovsdb.Operation{op}, nil
	})
	if err != nil {
		return "", false, err
	}
	rows, err := decodeAll[chassisRow](t, results[0].Rows)
	if err != nil {
		return "", false, err
	}
	if len(rows) == 0 {
		return "", false, fmt.Errorf("chassis %q: %w", name, ErrNoChassis)
	}
	return rows[0].UUID, old, nil
}

// begin opens the connection to the server that the client has, and monitors
// in one call: a second monitor would make libovsdb lose its copy.
func (r *Requests) begin(ctx context.Context, c *Client, chassis, uuid string, changed func()) error {
	present := c.current()
	if present == nil || present.broken() {
		return ovsclient.ErrNotConnected
	}
	var binding model.Model = &watchedBinding{}
	if r.old {
		binding = &watchedOldBinding{}
	}
	tables, err := model.NewClientDBModel(c.database, map[string]model.Model{tableBinding: binding, tableChassis: &watchedChassis{}})
	if err != nil {
		return fmt.Errorf("preparing the client: %w", err)
	}
	conn, err := ovsclient.NewOVSDBClient(tables, ovsclient.WithEndpoint(present.remote), ovsclient.WithTLSConfig(c.tls))
	if err != nil {
		return fmt.Errorf("preparing the client: %w", err)
	}
	r.conn = conn
	return beside(ctx, func() error {
		if err := conn.Connect(ctx); err != nil {
			return err
		}
		go r.guard()
		rows := conn.Cache()
		if rows == nil { // the connection has broken since
			return ovsclient.ErrNotConnected
		}
		rows.AddEventHandler(&cache.EventHandlerFuncs{
			AddFunc:    func(string, model.Model) { changed() },
			UpdateFunc: func(string, model.Model, model.Model) { changed() },
			DeleteFunc: func(table string, _ model.Model) {
				if table == tableChassis {
					r.end()
				}
				changed()
			},
		})
		if _, err := conn.Monitor(ctx, conn.NewMonitor(r.bindings(uuid), ownRow(chassis))); err != nil {
			return err
		}
		var own []watchedChassis
		if err := conn.List(ctx, &own); err != nil {
			return err
		}
		if len(own) != 1 || own[0].UUID != uuid {
			return ErrNoChassis // it has gone, or come anew, since it was looked up
		}
		return nil
	})
}

// bindings monitors what either condition holds for (ovsdb-server(7),
// «monitor_cond»: conditions are joined by or).
func (r *Requests) bindings(chassis string) ovsclient.MonitorOption {
	if r.old {
		b := &watchedOldBinding{}
		return ovsclient.WithConditionalTable(b, []model.Condition{
			{Field: &b.Requested, Function: ovsdb.ConditionEqual, Value: &chassis},
		}, &b.LogicalPort, &b.Datapath, &b.TunnelKey, &b.ExternalIDs)
	}
	b := &watchedBinding{}
	return ovsclient.WithConditionalTable(b, []model.Condition{
		{Field: &b.Requested, Function: ovsdb.ConditionEqual, Value: &chassis},
		{Field: &b.Additional, Function: ovsdb.ConditionIncludes, Value: []string{chassis}},
	}, &b.LogicalPort, &b.Datapath, &b.TunnelKey, &b.ExternalIDs)
}

func ownRow(chassis string) ovsclient.MonitorOption {
	row := &watchedChassis{}
	return ovsclient.WithConditionalTable(row, []model.Condition{
		{Field: &row.Name, Function: ovsdb.ConditionEqual, Value: chassis},
	}, &row.Name)
}

// guard ends the watch when the server has gone or is silent.
func (r *Requests) guard() {
	tick := time.NewTicker(requestsEcho)
	defer tick.Stop()
	defer r.end()
	for {
		select {
		case <-r.done:
			return
		case <-r.conn.DisconnectNotify():
			return
		case <-tick.C:
			ctx, cancel := context.WithTimeout(context.Background(), requestsEcho)
			err := beside(ctx, func() error { return r.conn.Echo(ctx) })
			cancel()
			if err != nil {
				return
			}
		}
	}
}

// beside runs a call of libovsdb that may not heed its context.
func beside(ctx context.Context, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Requests) end() { r.once.Do(func() { close(r.done) }) }

// Done is closed when the copy is no longer live.
func (r *Requests) Done() <-chan struct{} { return r.done }

// Close ends the watch.
func (r *Requests) Close() {
	r.end()
	if r.conn != nil {
		go r.conn.Close() // it waits for calls that hang
	}
}

// List is the present copy, ordered by port.
func (r *Requests) List(ctx context.Context) ([]Request, error) {
	var out []Request
	var err error
	if r.old {
		var rows []watchedOldBinding
		err = r.conn.List(ctx, &rows)
		for _, b := range rows {
			out = append(out, Request{b.LogicalPort, b.ExternalIDs})
		}
	} else {
		var rows []watchedBinding
		err = r.conn.List(ctx, &rows)
		for _, b := range rows {
			out = append(out, Request{b.LogicalPort, b.ExternalIDs})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listing requested ports: %w", err)
	}
	select {
	case <-r.done:
		return nil, fmt.Errorf("listing requested ports: %w", ovsclient.ErrNotConnected)
	default:
	}
	slices.SortFunc(out, func(a, b Request) int { return strings.Compare(a.LogicalPort, b.LogicalPort) })
	return out, nil
}

type requestRow struct {
	LogicalPort string            `ovsdb:"logical_port"`
	Options     map[string]string `ovsdb:"options"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// ReadRequest reads one port, whoever it is requested for: chassis are their
// names, or hostnames, as options:requested-chassis gives them. It is nil where
// the port does not exist. For a client of the Southbound.
func (c *Client) ReadRequest(ctx context.Context, port string) (r *Request, chassis []string, err error) {
	t := southboundType[requestRow](tableBinding)
	results, err := c.selects(ctx, func(s *Schema) ([]ovsdb.Operation, error) {
		op := selectAll(s, t)
		op.Where = []ovsdb.Condition{{Column: "logical_port", Function: ovsdb.ConditionEqual, Value: port}}
		return []ovsdb.Operation{op}, nil
	})
	if err != nil {
		return nil, nil, err
	}
	rows, err := decodeAll[requestRow](t, results[0].Rows)
	if err != nil || len(rows) == 0 {
		return nil, nil, err
	}
	for name := range strings.SplitSeq(rows[0].Options["requested-chassis"], ",") {
		if name != "" {
			chassis = append(chassis, name)
		}
	}
	return &Request{rows[0].LogicalPort, rows[0].ExternalIDs}, chassis, nil
}
