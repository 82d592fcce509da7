package main

import (
	"bytes"
	"context"

	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// ahead is a connection that was begun while the input was still being read, and
// the northbound database with it.
type ahead struct {
	done  chan struct{} // closed when there is what follows
	nb    *nbdb.Client
	store engine.Store
	err   error
}

// lookAhead begins to connect and to read for a large input. over is closed when the
// database has answered or can't be reached; drop ends what nobody has taken.
func (a *app) lookAhead(ctx context.Context, inputs []model.Input) (over <-chan struct{}, drop func()) {
	like, done := glimpse(inputs), make(chan struct{})
	if a.server() != "" || len(like) == 0 {
		close(done)
		return done, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &ahead{done: make(chan struct{})}
	a.early = c
	go func() {
		defer close(done)
		if answered := c.begin(ctx, a.northbound(a.logger()), a.flags.owner, a.flags.manager, like); answered != nil {
			<-answered
		}
	}()
	return done, func() {
		cancel()
		if <-c.done; a.early != nil && c.err == nil {
			c.nb.Close()
		}
		a.early = nil
	}
}

// begin connects and begins to read; what it returns is closed when the database
// has answered, nil where it can't be reached.
func (c *ahead) begin(ctx context.Context, options nbdb.Options, owner, manager string, like []*model.Resource) (answered <-chan struct{}) {
	defer close(c.done)
	if c.nb, c.err = nbdb.Dial(ctx, options); c.err != nil {
		return nil
	}
	e := engine.New(c.nb, owner, manager)
	answered = e.ReadAhead(ctx, like)
	c.store = e.NB
	return answered
}

// glimpse are some resources of a large input, of nearly nothing of its text.
func glimpse(inputs []model.Input) []*model.Resource {
	const large, first = 64, 1 << 10 // documents, and bytes of each file
	documents := 0
	heads := make([]model.Input, len(inputs))
	for i, in := range inputs {
		documents += 1 + bytes.Count(in.Data, []byte("\n---"))
		heads[i] = model.Input{Name: in.Name, Data: in.Data[:min(first, len(in.Data))]}
	}
	if documents < large {
		return nil
	}
	set, _ := model.Load(heads...)
	return set.Resources
}

// dial connects to the northbound database, or takes the connection that was begun
// before.
func (a *app) dial(ctx context.Context, options nbdb.Options) (*nbdb.Client, engine.Store, error) {
	if c := a.early; c != nil {
		select {
		case <-c.done:
			a.early = nil
			return c.nb, c.store, c.err
		case <-ctx.Done(): // time that is over is told as without a beginning
		}
	}
	nb, err := nbdb.Dial(ctx, options)
	return nb, nb, err
}
