package main

import (
	"maps"
	"slices"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// showTransactions shows every row, reference and key that a plan changes.
func (a *app) showTransactions(transactions []nbdb.Plan) {
	names := map[nbdb.UUID]string{}
	for _, tx := range transactions {
		for _, r := range tx.Rows {
			names[r.UUID] = rowName(r.Key, r.Name, r.UUID)
		}
	}
	for i, tx := range transactions {
		further := ""
		if n := len(tx.Guards); n > 0 {
			further = " and " + plural(n, "further precondition")
		}
		a.printf("  Transaction %d of %d: %s, checked against the old values%s\n", i+1, len(transactions),
			plural(len(tx.Rows)+len(tx.Edges)+len(tx.Entries), "change"), further)
		a.showRows(tx, func(uuid string) string {
			if name := names[nbdb.UUID(uuid)]; name != "" {
				return name
			}
			return uuid
		})
	}
}

// showRows shows one transaction; name is what stands for a row.
func (a *app) showRows(tx nbdb.Plan, name func(uuid string) string) {
	actions := map[nbdb.Op]engine.Action{nbdb.Insert: engine.Create, nbdb.Update: engine.Change, nbdb.Delete: engine.Remove}
	for _, r := range tx.Rows {
		v := verbOf(actions[r.Op])
		a.printf("    %s %s %s\n", a.colored(v.color, v.mark), r.Table, name(string(r.UUID)))
		for _, c := range r.Columns {
			if r.Op != nbdb.Delete { // then the row's name says enough
				a.showColumn("        ", c, r.Op == nbdb.Insert, name)
			}
		}
	}
	update := a.colored(yellow, "~")
	for _, x := range tx.Edges {
		a.printf("    %s %s %s\n", update, x.Table, name(string(x.From)))
		a.showSet("        "+x.Column, asTexts(x.Remove), asTexts(x.Add), name)
	}
	for _, x := range tx.Entries {
		a.printf("    %s %s %s\n        external_ids:%s: %s -> %s\n", update, x.Table, name(string(x.Row)), x.Key, pointed(x.Old), pointed(x.New))
	}
}

func asTexts(uuids []nbdb.UUID) []string {
	texts := make([]string, len(uuids))
	for i, u := range uuids {
		texts[i] = string(u)
	}
	return texts
}

func pointed(s *string) string {
	if s == nil {
		return value(nil)
	}
	return value(*s)
}

// rowName is a row's name and what it realises, as far as there is either.
func rowName(key, name string, uuid nbdb.UUID) string {
	switch {
	case key == "" && name == "":
		return string(uuid)
	case key == "":
		return name
	case name == "" || name == key:
		return key
	}
	return name + " (" + key + ")"
}

// showColumn shows what changes in a column: the elements of a set, the pairs
// of a map, or the value.
func (a *app) showColumn(indent string, c nbdb.ColumnChange, fresh bool, name func(string) string) {
	oldSet, wasSet := c.Old.([]string)
	newSet, isSet := c.New.([]string)
	oldMap, wasMap := c.Old.(map[string]string)
	newMap, isMap := c.New.(map[string]string)
	switch label := indent + c.Column; {
	case wasSet || isSet:
		a.showSet(label, oldSet, newSet, name)
	case wasMap || isMap:
		a.showMap(label, oldMap, newMap)
	case fresh:
		a.printf("%s: %s\n", label, display(c.New, name))
	default:
		a.printf("%s: %s -> %s\n", label, display(c.Old, name), display(c.New, name))
	}
}

// display is a value; one that is a row's UUID, by the row's name.
func display(v any, name func(string) string) string {
	if s, ok := v.(string); ok {
		v = name(s)
	}
	return value(v)
}

func (a *app) showSet(label string, old, fresh []string, name func(string) string) {
	var added, gone []string
	for _, e := range fresh {
		if !slices.Contains(old, e) {
			added = append(added, value(name(e)))
		}
	}
	for _, e := range old {
		if !slices.Contains(fresh, e) {
			gone = append(gone, value(name(e)))
		}
	}
	slices.Sort(added)
	slices.Sort(gone)
	for _, e := range added {
		a.printf("%s: %s %s\n", label, a.colored(green, "+"), e)
	}
	for _, e := range gone {
		a.printf("%s: %s %s\n", label, a.colored(red, "-"), e)
	}
}

func (a *app) showMap(label string, old, fresh map[string]string) {
	keys := map[string]bool{}
	for k := range old {
		keys[k] = true
	}
	for k := range fresh {
		keys[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		was, had := old[k]
		is, has := fresh[k]
		switch {
		case !had:
			a.printf("%s: %s %s=%s\n", label, a.colored(green, "+"), k, value(is))
		case !has:
			a.printf("%s: %s %s=%s\n", label, a.colored(red, "-"), k, value(was))
		case was != is:
			a.printf("%s:%s: %s -> %s\n", label, k, value(was), value(is))
		}
	}
}
