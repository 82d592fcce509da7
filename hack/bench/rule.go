package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// single are requests that insert one row, which nobody refers to and nobody
// owns, and that remove it.
func single() (insert, remove []byte, err error) {
	if insert, err = transaction(object{"op": "insert", "table": "Address_Set", "row": object{"name": "by_hand"}}); err != nil {
		return nil, nil, err
	}
	remove, err = transaction(object{"op": "delete", "table": "Address_Set", "where": []any{[]any{"name", "==", "by_hand"}}})
	return insert, remove, err
}

// ruleTimes are how long things took, round by round.
type ruleTimes struct {
	raw, calls, puts []time.Duration
	same             []time.Duration // the transaction of a call, by hand
	nothing          []time.Duration // a call that changes nothing
}

// serverRule adds a rule by REST, in VPCs with few and with many attachments,
// and rows by hand; the calls take turns.
func (b *bench) serverRule(ctx context.Context) ([]row, error) {
	sizes := []int{b.size.few, b.size.attachments}
	specs := make([]string, len(sizes))
	var err error
	for i, n := range sizes {
		if specs[i], err = b.writeSpecs(b.shop(n), fmt.Sprintf("rule-%d", n)); err != nil {
			return nil, err
		}
	}
	times := make([]ruleTimes, len(sizes))
	err = b.at(ctx, specs[0], func(few *site) error {
		return b.at(ctx, specs[1], func(many *site) error {
			sites, edits := []*site{few, many}, make([]ruleEdit, len(sizes))
			for i, s := range sites {
				if edits[i], err = b.observeRule(ctx, s, ruleOf(b.size.rules)); err != nil {
					return err
				}
			}
			for n, enough := 0, b.enough(); !enough(n); n++ {
				for i, s := range sites {
					if err := s.alterRules(ctx, ruleOf(b.size.rules), edits[i], n, &times[i]); err != nil {
						return err
					}
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	var rows []row
	calls, raw := make([][]time.Duration, len(sizes)), make([][]time.Duration, len(sizes))
	for i, n := range sizes {
		calls[i], raw[i] = times[i].calls, times[i].raw
		name := fmt.Sprintf("one rule added by REST, %d attachments, p50", n)
		rows = append(rows, atMost(name, show(median(calls[i])), "raw single row "+show(median(raw[i])), "raw", ratio(calls[i], raw[i]), 5))
	}
	rows = append(rows, independent(fmt.Sprintf("... %d attachments against %d", sizes[1], sizes[0]), calls, raw))
	for _, told := range []struct {
		name   string
		series []time.Duration
	}{
		{"the same transaction by hand", times[1].same}, {"a call by REST that does nothing", times[1].nothing},
		{fmt.Sprintf("its list of %d put whole", b.size.rules+1), times[1].puts},
	} {
		rows = append(rows, row{name: fmt.Sprintf("... %s, %d attachments, p50", told.name, sizes[1]), figure: show(median(told.series)),
			baseline: "raw single row " + show(median(raw[1])), ratio: fmt.Sprintf("%.2f", ratio(told.series, raw[1]))})
	}
	return rows, nil
}

// alteredList is the list whose rules come and go.
func alteredList() model.ID { return model.ID{Kind: model.KindACL, VPC: vpcName, Name: "list-0"} }

// alterRules adds a row by hand, a rule by REST, alone and with its list, and the
// rule's rows by hand; each is then removed. n counts the calls.
func (s *site) alterRules(ctx context.Context, rule model.Rule, edit ruleEdit, n int, times *ruleTimes) error {
	insert, remove, err := single()
	if err != nil {
		return err
	}
	if err := s.inTurn(&times.raw, insert, remove); err != nil {
		return err
	}
	if err := timed(&times.calls, func() error { _, err := s.AddRule(ctx, alteredList(), rule, engine.WaitNone); return err }); err != nil {
		return err
	}
	if _, err := s.DeleteRule(ctx, alteredList(), rule.Number, engine.WaitNone); err != nil {
		return err
	}
	stored, err := s.GetOne(ctx, alteredList())
	if err != nil {
		return err
	}
	more, spec := *stored.Resource, *stored.Resource.Spec.(*model.ACLSpec)
	spec.Rules = append(slices.Clone(spec.Rules), rule)
	more.Spec = &spec
	if err := timed(&times.puts, func() error { _, err := s.Put(ctx, &more, client.WriteOptions{}); return err }); err != nil {
		return err
	}
	if _, err = s.Put(ctx, stored.Resource, client.WriteOptions{}); err != nil {
		return err
	}
	if err := s.inTurn(&times.same, edit.at(n)...); err != nil {
		return err
	}
	return timed(&times.nothing, func() error { return s.healthy(ctx) })
}

// inTurn sends requests to the twin; the first is timed.
func (s *site) inTurn(series *[]time.Duration, requests ...[]byte) error {
	for i, data := range requests {
		var ignored []time.Duration
		into := &ignored
		if i == 0 {
			into = series
		}
		if err := timed(into, func() error { _, err := s.hand.exchange(data); return err }); err != nil {
			return err
		}
	}
	return nil
}

// healthy calls the server for nothing.
func (s *site) healthy(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/healthz", nil)
	if err != nil {
		return fmt.Errorf("asking for the server's health: %w", err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("asking for the server's health: %w", err)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close())
}

// ruleEdit are the transactions of a server that adds a rule and removes it, one
// after the other.
type ruleEdit struct{ add, remove []byte }

// kept is how many entries a history has.
const kept = 20

// observeRule lets a server add a rule to the twin and remove it, until the history
// is full and nothing else comes.
func (b *bench) observeRule(ctx context.Context, s *site, rule model.Rule) (e ruleEdit, err error) {
	between, err := newProxy(ctx, s.twin.Dir(), s.twin.NB())
	if err != nil {
		return e, err
	}
	server, err := b.serve(ctx, "--nb", between.remote())
	if err != nil {
		_, closed := between.close()
		return e, errors.Join(err, closed)
	}
	for range kept/2 + 1 {
		if _, err = server.AddRule(ctx, alteredList(), rule, engine.WaitNone); err != nil {
			break
		}
		if _, err = server.DeleteRule(ctx, alteredList(), rule.Number, engine.WaitNone); err != nil {
			break
		}
	}
	err = errors.Join(err, server.stop())
	writes, closed := between.close()
	if err = errors.Join(err, closed); err != nil {
		return e, err
	}
	if len(writes) < kept {
		return e, fmt.Errorf("a server that changed rules %d times wrote %d times", kept+2, len(writes))
	}
	return ruleEdit{writes[len(writes)-2].request, writes[len(writes)-1].request}, nil
}

// historyKey begins the keys of a history's entries (docs/rows.md).
const historyKey = "ovn-vpc-history:"

// at are the transactions for the n-th time after they were observed, counted from
// 0: their entries of the history have later numbers.
func (e ruleEdit) at(n int) [][]byte {
	keys := regexp.MustCompile(historyKey + `\d+`)
	later := func(request []byte) []byte {
		return keys.ReplaceAllFunc(request, func(key []byte) []byte {
			number, _ := strconv.Atoi(string(key[len(historyKey):])) // it has digits alone
			return strconv.AppendInt([]byte(historyKey), int64(number+2*(n+1)), 10)
		})
	}
	return [][]byte{later(e.add), later(e.remove)}
}
