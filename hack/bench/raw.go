package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// rawFile prepares the rows of a content as transactions that insert as many
// rows each as those of the subject did: a file with a request on each line.
func (b *bench) rawFile(c *content, cut []sent) (string, error) {
	var inserts []any
	ports := map[string]string{} // port -> its switch
	for _, e := range c.rows[tableSwitch] {
		for _, port := range e.set("ports") {
			ports[port] = e.uuid
		}
	}
	var guests []entry
	for _, table := range c.tables() {
		for _, e := range c.rows[table] {
			switch {
			case table == tablePort && e.text("type") == "":
				guests = append(guests, e)
				continue
			case table == tableSwitch:
				e.columns = withoutPorts(e.columns)
			}
			inserts = append(inserts, e.insert(table))
		}
	}
	// The rest of the ports belongs to the first transaction.
	structure := len(inserts)
	routers := map[string][]string{}
	for _, e := range c.rows[tablePort] {
		if e.text("type") != "" {
			routers[ports[e.uuid]] = append(routers[ports[e.uuid]], e.uuid)
		}
	}
	var file bytes.Buffer
	for i, tx := range cut {
		operations, members := []any{}, map[string][]string{}
		room := tx.inserts
		if i == 0 {
			operations, members, room = inserts, routers, room-structure
		}
		for range min(room, len(guests)) {
			operations = append(operations, guests[0].insert(tablePort))
			members[ports[guests[0].uuid]] = append(members[ports[guests[0].uuid]], guests[0].uuid)
			guests = guests[1:]
		}
		data, err := transaction(append(operations, joins(members)...)...)
		if err != nil {
			return "", err
		}
		file.Write(append(data, '\n'))
	}
	if len(guests) > 0 {
		return "", fmt.Errorf("%d rows are in no transaction of the subject's", len(guests))
	}
	path := filepath.Join(b.dir, "raw.json")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		return "", fmt.Errorf("preparing rows: %w", err)
	}
	return path, nil
}

func withoutPorts(columns map[string]json.RawMessage) map[string]json.RawMessage {
	kept := map[string]json.RawMessage{}
	for column, value := range columns {
		if column != "ports" {
			kept[column] = value
		}
	}
	return kept
}

func (e entry) insert(table string) object {
	return object{"op": "insert", "table": table, "uuid": e.uuid, "row": e.columns}
}

// joins adds ports to their switches.
func joins(members map[string][]string) []any {
	var operations []any
	for to, ports := range members {
		operations = append(operations, mutateSet(tableSwitch, to, "ports", ports...))
	}
	return operations
}

// mutateSet adds references to a set of a row.
func mutateSet(table, row, column string, uuids ...string) object {
	references := make([]any, len(uuids))
	for i, uuid := range uuids {
		references[i] = []string{"uuid", uuid}
	}
	return object{"op": "mutate", "table": table, "where": isRow(row), "mutations": []any{[]any{column, "insert", []any{"set", references}}}}
}

func isRow(uuid string) []any {
	return []any{[]any{"_uuid", "==", []string{"uuid", uuid}}}
}

// sendFile sends the requests of a file one by one: the time from opening it
// to the last answer.
func sendFile(ctx context.Context, path, remote string) (took time.Duration, err error) {
	start := time.Now()
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("reading prepared rows: %w", err)
	}
	w, err := dialWire(ctx, remote)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for line := range bytes.Lines(data) {
		if _, err := w.exchange(line); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// sameRows checks that a database has as many rows of each table as a content.
func sameRows(ctx context.Context, want *content, remote string) error {
	have, err := readContent(ctx, remote)
	if err != nil {
		return err
	}
	for _, table := range slices.Concat(want.tables(), have.tables()) {
		if len(want.rows[table]) != len(have.rows[table]) {
			return fmt.Errorf("%s has %d rows, and by hand %d", table, len(want.rows[table]), len(have.rows[table]))
		}
	}
	return nil
}
