package server_test
import ("testing";"os";"github.com/ovn-vpc/ovn-vpc/lab")
func TestZZ(t *testing.T){ f:=newFixture(t, lab.SandboxOptions{NoNorthd:true}); os.WriteFile("/tmp/i4s-openapi.json", []byte(f.call("GET","/openapi.json","").text),0o600)
 for _, x := range [][2]string{{"GET","/v1/nope"},{"POST","/healthz"},{"DELETE","/v1/vpcs"},{"GET","/v1/vpcs/a/"},{"GET","/v1/../v1/vpcs"},{"GET","/v1/vpcs"},{"GET","/v1/vpcs/shop"},{"GET","/v1/vpcs/SHOP"},{"GET","/v1/vpcs?x=1"},{"GET","/v1/vpcs?limit=0"},{"GET","/v1/vpcs?limit=a"},{"GET","/v1/vpcs/shop/tiers"},{"GET","/v1/drift"},{"GET","/v1/export"},{"POST","/v1/plan"},{"PUT","/v1/vpcs/shop"}} {
  r:=f.call(x[0],x[1],""); t.Log(x, r.status, r.text, r.header) }
}
