package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/ovn-vpc/ovn-vpc/client"
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/model"
)

// A network interface of a virtual machine: created once however often this
// runs, and waited for until every hypervisor knows it.
func Example() {
	c, err := client.New(client.Options{URL: "https://net.example:8443", Token: client.TokenFile("/etc/cloud/token")})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	spec := model.NewSpec(model.KindAttachment).(*model.AttachmentSpec)
	spec.Tier, spec.Chassis = "web", "hv1"
	nic := &model.Resource{Kind: model.KindAttachment, Metadata: model.Metadata{VPC: "shop"}, Spec: spec}

	made, err := c.Create(context.Background(), nic, client.CreateOptions{IdempotencyKey: "vm-42/nic-0", Wait: engine.WaitHV})
	var invalid *engine.InvalidError
	switch {
	case errors.As(err, &invalid):
		fmt.Println("the request is at fault:", invalid.Diagnostics)
	case err != nil:
		log.Fatal(err) // calling again with the same key is safe
	case made.Pending != nil:
		fmt.Println("it is stored, and not everywhere yet:", made.Pending.Chassis)
	}
	status := made.Status.(*engine.AttachmentStatus)
	fmt.Println(status.Addresses, status.MAC, status.InterfaceID)
}

// A hypervisor's view of what is plugged there.
func ExampleClient_Watch() {
	c, err := client.New(client.Options{URL: "https://net.example:8443", Token: client.TokenFile("/etc/cloud/token")})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	known := map[model.ID]engine.Object{}
	for event, err := range c.Watch(context.Background(), client.WatchOptions{Filter: engine.Filter{Chassis: "hv1"}}) {
		if err != nil {
			log.Fatal(err)
		}
		switch event.Type {
		case client.Reset:
			clear(known)
		case client.Added, client.Modified:
			known[event.Object.Resource.ID()] = event.Object
		case client.Deleted:
			delete(known, event.Object.Resource.ID())
		}
	}
}
