package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// Pending says what a change has not reached yet.
type Pending struct {
	For     Wait     `json:"for"`
	Target  int      `json:"target"`            // nb_cfg of the change
	Reached int      `json:"reached"`           // sb_cfg or hv_cfg now
	Chassis []string `json:"chassis,omitempty"` // those behind, where the southbound database can be read
}

// pendingPatience is how long finding out what is pending may take, after the
// time to wait is over.
const pendingPatience = 2 * time.Second

// Await waits until what was committed with nbCfg has come as far as wait
// says. When ctx's deadline passes before, it tells what is pending, which is no error.
func (e *Engine) Await(ctx context.Context, wait Wait, nbCfg int) (*Pending, error) {
	if !wait.any() {
		return nil, nil
	}
	err := e.waitCfg(ctx, wait, nbCfg)
	switch {
	case err == nil:
		return nil, nil
	case !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("waiting for %s: %w", wait, err)
	}
	brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), pendingPatience)
	defer cancel()
	return e.pending(brief, wait, nbCfg)
}

// pending is what is not there yet, nil if all is.
func (e *Engine) pending(ctx context.Context, wait Wait, nbCfg int) (*Pending, error) {
	state, err := e.NB.Read(ctx, nbdb.Query{Table: nbdb.TableNBGlobal, Columns: []string{"sb_cfg", "hv_cfg"}})
	if err != nil {
		return nil, fmt.Errorf("reading how far it has come: %w", err)
	}
	p := &Pending{For: wait, Target: nbCfg}
	for _, global := range nbdb.All[*nbdb.NBGlobal](state) {
		p.Reached = global.SbCfg
		if wait == WaitHV {
			p.Reached = global.HvCfg
		}
	}
	if p.Reached >= nbCfg {
		return nil, nil
	}
	if wait == WaitHV && e.SB != nil {
		if p.Chassis, err = e.SB.ReadBehind(ctx, nbCfg); err != nil {
			e.Log.Warn("the southbound database can't be read", "error", err)
		}
	}
	return p, nil
}
