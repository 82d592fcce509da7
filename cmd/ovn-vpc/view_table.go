package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// column is one column of a kind's table.
type column struct {
	title string
	wide  bool // with -o wide only
	cell  func(o engine.Object) string
}

// showTables shows resources in a table for each kind, under a title where
// they were asked for whatever their kind.
func (a *app) showTables(objects []engine.Object, wide, titled bool) error {
	if len(objects) == 0 {
		fmt.Fprintln(a.stderr, "No resource found.")
		return nil
	}
	for i := 0; i < len(objects); {
		kind, end := objects[i].Resource.Kind, i
		for end < len(objects) && objects[end].Resource.Kind == kind {
			end++
		}
		if i > 0 {
			a.printf("\n")
		}
		if titled {
			a.printf("%s:\n", title(kind))
		}
		if err := a.showTable(columnsOf(kind), objects[i:end], wide); err != nil {
			return err
		}
		i = end
	}
	return nil
}

// title is what stands above resources of a kind.
func title(kind model.Kind) string {
	switch kind {
	case model.KindVPC, model.KindACL, model.KindVPCOffering:
		return string(kind) + "s"
	}
	plural := kind.Plural()
	return strings.ToUpper(plural[:1]) + plural[1:]
}

func (a *app) showTable(columns []column, objects []engine.Object, wide bool) error {
	columns = slices.DeleteFunc(columns, func(c column) bool { return c.wide && !wide })
	rows := make([][]string, 1, len(objects)+1)
	for _, c := range columns {
		rows[0] = append(rows[0], c.title)
	}
	for _, o := range objects {
		var cells []string
		for _, c := range columns {
			cells = append(cells, c.cell(o))
		}
		rows = append(rows, cells)
	}
	return a.align("", rows)
}

// align writes rows of cells one below the other, a hyphen for a cell without
// a text.
func (a *app) align(indent string, rows [][]string) error {
	table := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
	for _, cells := range rows {
		for i, c := range cells {
			if c == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintf(table, "%s%s\n", indent, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

func columnsOf(kind model.Kind) []column {
	name := column{title: "NAME", cell: func(o engine.Object) string { return o.Resource.Metadata.Name }}
	labels := column{"LABELS", true, func(o engine.Object) string { return pairs(o.Resource.Metadata.Labels) }}
	columns := []column{name}
	if !kind.Global() {
		columns = []column{{title: "VPC", cell: func(o engine.Object) string { return o.Resource.Metadata.VPC }}, name}
	}
	switch kind {
	case model.KindVPC:
		columns = append(columns, vpcColumns()...)
	case model.KindVPCOffering:
		columns = append(columns, offeringColumns()...)
	case model.KindTier:
		columns = append(columns, tierColumns()...)
	case model.KindACL:
		columns = append(columns, aclColumns()...)
	case model.KindAttachment:
		columns = append(columns, attachmentColumns()...)
	case model.KindExpectation:
		columns = append(columns, expectationColumns()...)
	}
	return append(columns, labels)
}
