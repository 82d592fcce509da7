package model

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// PlugType says what an agent makes of an attachment on its hypervisor.
type PlugType string

// The types. Without one, somebody else plugs the interface by its ID.
const (
	PlugNone     PlugType = "none"
	PlugNetns    PlugType = "netns"
	PlugTap      PlugType = "tap"
	PlugInternal PlugType = "internal"
)

// PlugConfigure says where the interface of a namespace has its addresses and
// routes from.
type PlugConfigure string

// The ways to configure. The default is PlugStatic.
const (
	PlugStatic PlugConfigure = "static"
	PlugDHCP   PlugConfigure = "dhcp"
)

// PlugSpec asks the agent of the attachment's chassis for the interface.
type PlugSpec struct {
	Type PlugType `json:"type" doc:"none (default): somebody else plugs the interface; netns: eth0 in a network namespace; tap: a persistent tap for a virtual machine; internal: an internal port of Open vSwitch"`
	Name string   `json:"name,omitempty" doc:"netns: the namespace, default VPC.NAME; tap, internal: the interface, at most 15 characters, default derived"`
	// Configure is empty for PlugStatic.
	Configure      PlugConfigure `json:"configure,omitempty" doc:"netns: static (default): the agent sets addresses and routes as the specs say; dhcp: it asks the tier's DHCP servers and hears router advertisements"`
	PostCreateExec []string      `json:"postCreateExec,omitempty" doc:"program and arguments to run once the interface is made; ${ifname}, ${address} and ${mac} are replaced"`
	PostDeleteExec []string      `json:"postDeleteExec,omitempty" doc:"program and arguments to run once the interface is out of service"`
}

const (
	maxIfNameLen = 15  // IFNAMSIZ of Linux without the final NUL
	maxNetnsLen  = 127 // two DNS labels and a dot
)

// HookVariables are the names that hooks may use as ${name}.
func HookVariables() []string { return []string{"ifname", "address", "mac"} }

// normalPlug is the one form of what is meant: «nobody is asked» is no plug at
// all, and the default way to configure is not named.
func normalPlug(p *PlugSpec) *PlugSpec {
	switch {
	case p == nil:
		return nil
	case p.Type == PlugNetns && p.Configure == PlugStatic:
		p.Configure = ""
	case (p.Type == "" || p.Type == PlugNone) && p.Name == "" && p.Configure == "" && len(p.PostCreateExec)+len(p.PostDeleteExec) == 0:
		return nil
	}
	return p
}

func (p *PlugSpec) check(c *checker, chassis string) {
	const field = "spec.plug"
	switch p.Type {
	case PlugNetns:
		c.optional(field+".name", p.Name, plugName("a namespace", maxNetnsLen))
		if p.Configure != "" && p.Configure != PlugDHCP {
			c.fault(field+".configure", quote(string(p.Configure))+" is not a way to configure", "use static or dhcp")
		}
	case PlugTap, PlugInternal:
		c.optional(field+".name", p.Name, plugName("an interface", maxIfNameLen))
		if p.Name == "all" || p.Name == "default" {
			c.fault(field+".name", quote(p.Name)+" stands for interfaces in general in the kernel's settings", "choose another")
		}
		if p.Configure != "" {
			c.fault(field+".configure", "is for the type netns alone", "remove it, or use the type netns")
		}
	case "", PlugNone:
		for _, x := range []struct {
			name  string
			given bool
		}{{"name", p.Name != ""}, {"configure", p.Configure != ""}, {"postCreateExec", len(p.PostCreateExec) > 0}, {"postDeleteExec", len(p.PostDeleteExec) > 0}} {
			if x.given {
				c.fault(field+"."+x.name, "has no meaning without an interface to make", "give spec.plug.type netns, tap or internal, or remove it")
			}
		}
		return
	default:
		c.fault(field+".type", quote(string(p.Type))+" is not a type of plug", "use none, netns, tap or internal")
		return
	}
	checkHook(c, field+".postCreateExec", p.PostCreateExec)
	checkHook(c, field+".postDeleteExec", p.PostDeleteExec)
	if chassis == "" {
		c.warn(field, "takes effect only on the hypervisor that spec.chassis names", "name it in spec.chassis")
	}
}

// plugName is the syntax of what stands below /run/netns and in the kernel's
// list of interfaces.
func plugName(what string, longest int) syntax {
	return func(text string) *fault {
		if len(text) > longest {
			return &fault{fmt.Sprintf("%s has %d characters", quote(text), len(text)), fmt.Sprintf("use at most %d", longest)}
		}
		if !only(text, "-_.") || !alphanumericEnds(text) {
			return &fault{quote(text) + " is not the name of " + what, "use letters, digits, - _ and ., a letter or digit at both ends"}
		}
		return nil
	}
}

// checkHook holds the arguments of a hook, which no shell sees.
func checkHook(c *checker, field string, argv []string) {
	variable := regexp.MustCompile(`\$\{[^}]*\}?`)
	for i, arg := range argv {
		at := index(field, i)
		switch {
		case arg == "":
			c.fault(at, "is empty", "give an argument, or remove it")
			continue
		case strings.IndexFunc(arg, unicode.IsControl) >= 0:
			c.fault(at, quote(arg)+" holds a control character", "write one line of text")
			continue
		case i == 0 && (!path.IsAbs(arg) || path.Clean(arg) != arg):
			c.fault(at, quote(arg)+" is not the absolute path of a program", "write it from / on, without . and ..")
			continue
		}
		for _, found := range variable.FindAllString(arg, -1) {
			name, closed := strings.CutSuffix(found[len("${"):], "}")
			if !closed || !hookVariable(name) || i == 0 {
				c.fault(at, quote(found)+" can't be replaced", "known are ${ifname}, ${address} and ${mac}, in arguments")
			}
		}
	}
}

func hookVariable(name string) bool { return slices.Contains(HookVariables(), name) }
