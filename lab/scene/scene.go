// Package scene plays what a lab has to show: who reaches whom, a list replaced
// while a stream runs, a guest that migrates while it is pinged, and the way of
// packets on the underlay. The scenes are one for every kind of lab.
package scene

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ovn-vpc/ovn-vpc/lab/node"
)

const (
	// Example is the folder of the specs that the scenes are played with.
	Example = "examples/three-tier/"
	vpc     = "shop" // its VPC
	// needed is the number of hypervisors: two for guests, and a third.
	needed = 3
	// patience bounds the wait for anything that has to happen.
	patience = 30 * time.Second
)

// Stage is a lab that scenes are played on.
type Stage interface {
	// OVNVPC runs ovn-vpc on the lab's databases, from a folder with Example in
	// it, and returns its standard output. input is its standard input.
	OVNVPC(ctx context.Context, input string, args ...string) (string, error)
	// Hypervisors are the lab's hypervisors, always the same in the same order.
	Hypervisors() []*node.Client
}

// Report is what the scenes came to.
type Report struct {
	Reach       []Reach
	Replacement Replacement
	Migration   Migration
	Paths       []Path
}

// play is a performance: the stage, the guests on it, and the narration.
type play struct {
	stage Stage
	out   io.Writer
	net   network
}

// Guests applies the example and has a guest for each of its attachments,
// listening where the lists name a port of TCP. Guests that are there stay.
func Guests(ctx context.Context, stage Stage, out io.Writer) error {
	_, err := begin(ctx, stage, out)
	return err
}

// Run plays all scenes and tells about them on out. Afterwards the specs are
// as the example has them, and the guests as Guests has them.
func Run(ctx context.Context, stage Stage, out io.Writer) (*Report, error) {
	p, err := begin(ctx, stage, out)
	if err != nil {
		return nil, err
	}
	report := &Report{}
	for _, scene := range []struct {
		title string
		play  func(context.Context) error
	}{
		{"Who reaches whom, tried with packets", func(ctx context.Context) (err error) { report.Reach, err = p.matrix(ctx); return }},
		{"A list is replaced while a TCP stream runs", func(ctx context.Context) (err error) { report.Replacement, err = p.replace(ctx); return }},
		{"A guest moves to another hypervisor while it is pinged", func(ctx context.Context) (err error) { report.Migration, err = p.migrate(ctx); return }},
		{"The way on the underlay: tunnelled packets for three pings", func(ctx context.Context) (err error) { report.Paths, err = p.paths(ctx); return }},
	} {
		p.title(scene.title)
		if err := scene.play(ctx); err != nil {
			return nil, fmt.Errorf("scene %q: %w", scene.title, err)
		}
	}
	return report, nil
}

func begin(ctx context.Context, stage Stage, out io.Writer) (*play, error) {
	if n := len(stage.Hypervisors()); n < needed {
		return nil, fmt.Errorf("the scenes need %d hypervisors, and the lab has %d", needed, n)
	}
	p := &play{stage: stage, out: out}
	p.title("Apply")
	if err := errors.Join(p.show(ctx, "apply", "-f", Example, "--wait", "hv"), p.tidy(ctx)); err != nil {
		return nil, err
	}
	p.title("Plan again: nothing left to do")
	if err := p.show(ctx, "plan", "-f", Example, "--exit-code"); err != nil {
		return nil, err
	}
	p.title("What is there now")
	if err := p.show(ctx, "get", "attachment", "--vpc", vpc, "-o", "wide"); err != nil {
		return nil, err
	}
	if err := p.read(ctx); err != nil {
		return nil, err
	}
	p.title("A guest for every attachment")
	return p, p.plug(ctx)
}

func (p *play) title(text string) { p.say("\n== %s", text) }

// say narrates. Who does not listen, misses it.
func (p *play) say(format string, args ...any) { _, _ = fmt.Fprintf(p.out, format+"\n", args...) }

// run runs ovn-vpc and shows the command.
func (p *play) run(ctx context.Context, args ...string) (string, error) {
	p.say("$ ovn-vpc %s", strings.Join(args, " "))
	return p.stage.OVNVPC(ctx, "", args...)
}

// show is run, and shows the output.
func (p *play) show(ctx context.Context, args ...string) error {
	out, err := p.run(ctx, args...)
	p.say("%s", strings.TrimSpace(out))
	return err
}

// apply applies a document and waits until every hypervisor acts by it.
func (p *play) apply(ctx context.Context, document string) error {
	p.say("$ ovn-vpc apply -f - <<< '%s'", document)
	if _, err := p.stage.OVNVPC(ctx, document, "apply", "-f", "-", "--wait", "hv"); err != nil {
		return err
	}
	return p.revalidate(ctx)
}

// restore undoes what a scene has changed.
func (p *play) restore(ctx context.Context) error {
	if _, err := p.run(ctx, "apply", "-f", Example, "--wait", "hv"); err != nil {
		return err
	}
	return p.tidy(ctx)
}

// tidy removes what scenes bring that is not of the example, also where one was
// cut short.
func (p *play) tidy(ctx context.Context) error {
	if err := p.destination().Unplug(ctx, traveller); err != nil {
		return err
	}
	lists, err := list[acl](ctx, p, "acl")
	if err != nil {
		return err
	}
	for _, l := range lists {
		if strings.HasPrefix(l.Metadata.Name, sceneLists) {
			if _, err := p.run(ctx, "delete", "acl", l.Metadata.Name, "--vpc", vpc); err != nil {
				return err
			}
		}
	}
	return p.revalidate(ctx)
}

// revalidate waits until no datapath acts by older flows that it has cached.
func (p *play) revalidate(ctx context.Context) error {
	var errs []error
	for _, hv := range p.stage.Hypervisors() {
		errs = append(errs, hv.Revalidate(ctx))
	}
	return errors.Join(errs...)
}

// eventually tries until ok holds, for as long as patience lasts.
func eventually(ctx context.Context, what string, ok func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for ticker := time.NewTicker(100 * time.Millisecond); ; {
		if done, err := ok(ctx); done || err != nil {
			ticker.Stop()
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			ticker.Stop()
			return fmt.Errorf("wait until %s: %w", what, ctx.Err())
		}
	}
}
