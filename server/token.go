package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Grant is a line of the file of tokens: who may do what, and how the caller
// proves who it is. Fields are separated by blanks; a line that is empty or begins
// with # says nothing:
//
//	NAME ROLE PATTERN[,PATTERN...] CREDENTIAL [EXPIRES]
//
// Several lines may have one name: so a token is exchanged without a pause. A
// credential stands in one line alone. EXPIRES is a time of RFC 3339.
type Grant struct {
	Principal
	// Credential is one of
	//
	//	HEX              the SHA-256 of a bearer token, 64 hexadecimal digits
	//	cert:sha256:HEX  the SHA-256 of a client certificate (its fingerprint; colons are allowed)
	//	cert:CN=NAME     the common name of a client certificate's subject, without blanks
	//
	// A certificate has to be verified by the listener; its fingerprint is looked
	// for first.
	Credential string
	Expires    time.Time // zero: never
}

const (
	tokenPrefix       = "ovt_" // by which tokens are found where they shouldn't be
	tokenBytes        = 32
	fingerprintPrefix = "cert:sha256:"
	commonNamePrefix  = "cert:CN="
)

// NewToken makes a bearer token, and the credential that a Grant has of it.
func NewToken(random io.Reader) (token, credential string, err error) {
	secret := make([]byte, tokenBytes)
	if _, err := io.ReadFull(random, secret); err != nil {
		return "", "", fmt.Errorf("drawing a token: %w", err)
	}
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(secret)
	sum := sha256.Sum256([]byte(token))
	return token, hex.EncodeToString(sum[:]), nil
}

// String is the grant as a line of the file, without its end.
func (g Grant) String() string {
	fields := []string{g.Name, string(g.Role), strings.Join(g.VPCs, ","), g.Credential}
	if !g.Expires.IsZero() {
		fields = append(fields, g.Expires.UTC().Format(time.RFC3339))
	}
	return strings.Join(fields, " ")
}

// ParseGrants reads a file of tokens: all its lines, or an error that names
// each faulty one by file and line, and never what it holds.
func ParseGrants(file string, data []byte) ([]Grant, error) {
	var grants []Grant
	var faults []error
	seen := map[string]int{} // credentials, by line
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		g, err := parseGrant(strings.Fields(line))
		if first, twice := seen[g.Credential]; err == nil && twice {
			err = fmt.Errorf("line %d has the same credential (keep one of them)", first)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s:%d: %w", file, number, err))
			continue
		}
		seen[g.Credential] = number
		grants = append(grants, g)
	}
	return grants, errors.Join(faults...)
}

func parseGrant(fields []string) (Grant, error) {
	if len(fields) < 4 || len(fields) > 5 {
		return Grant{}, fmt.Errorf("%d fields (write NAME ROLE PATTERN[,PATTERN...] CREDENTIAL [EXPIRES]; `ovn-vpc token new` prints such a line)", len(fields))
	}
	g := Grant{Principal: Principal{Name: fields[0], Role: Role(fields[1]), VPCs: strings.Split(fields[2], ",")}, Credential: canonical(fields[3])}
	if len(fields) == 5 {
		var err error
		if g.Expires, err = time.Parse(time.RFC3339, fields[4]); err != nil {
			return Grant{}, errors.New("the fifth field is no time (write it as RFC 3339 has it: 2030-12-31T23:59:59Z)")
		}
	}
	return g, g.Check()
}

// canonical is a credential in the form in which it is compared.
func canonical(credential string) string {
	if strings.HasPrefix(credential, commonNamePrefix) {
		return credential
	}
	if fingerprint, ok := strings.CutPrefix(credential, fingerprintPrefix); ok {
		return fingerprintPrefix + strings.ToLower(strings.ReplaceAll(fingerprint, ":", ""))
	}
	if strings.HasPrefix(credential, tokenPrefix) {
		return credential
	}
	return strings.ToLower(credential)
}

// Check tells what is wrong with a grant, and how to mend it. It never says what
// the grant holds: a secret may stand in the wrong place.
func (g Grant) Check() error {
	var faults []error
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@:-]{0,62}$`).MatchString(g.Name) {
		faults = append(faults, errors.New("the name can't be used (use 1 to 63 letters, digits and . _ @ : -, a letter or digit first)"))
	}
	if !slices.Contains(Roles(), g.Role) {
		faults = append(faults, errors.New("there is no such role (viewer, editor or admin)"))
	}
	pattern := regexp.MustCompile(`^[]a-z0-9*?[^-]+$`)
	if len(g.VPCs) == 0 || slices.ContainsFunc(g.VPCs, func(p string) bool {
		_, err := path.Match(p, "")
		return err != nil || !pattern.MatchString(p)
	}) {
		faults = append(faults, errors.New("a pattern of VPC names can't be used (such as shop, shop-*, team[12]-?, or * for all)"))
	}
	return errors.Join(append(faults, checkCredential(g.Credential))...)
}

func checkCredential(credential string) error {
	if strings.HasPrefix(credential, tokenPrefix) {
		return errors.New("this is a token itself (put its SHA-256 there, `printf %s TOKEN | sha256sum`, and make a new token if others could read the file)")
	}
	if name, ok := strings.CutPrefix(credential, commonNamePrefix); ok {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' }) {
			return errors.New("the common name is empty or has blanks (name the certificate by cert:sha256:FINGERPRINT)")
		}
		return nil
	}
	digits := strings.TrimPrefix(credential, fingerprintPrefix)
	if sum, err := hex.DecodeString(digits); err != nil || len(sum) != sha256.Size {
		return errors.New("the credential can't be read (the 64 hexadecimal digits of the token's SHA-256, cert:sha256:FINGERPRINT or cert:CN=NAME)")
	}
	return nil
}

// entry is a grant in force.
type entry struct {
	Grant
	token   [sha256.Size]byte // the SHA-256 of a bearer token
	isToken bool
	revoked chan struct{} // closed by revoke
}

func newEntry(g Grant) *entry {
	e := &entry{Grant: g, revoked: make(chan struct{})}
	if sum, err := hex.DecodeString(g.Credential); err == nil {
		e.token, e.isToken = [sha256.Size]byte(sum), true
	}
	return e
}

func (e *entry) expired(now time.Time) bool { return !e.Expires.IsZero() && !now.Before(e.Expires) }

// revoke tells those who have called with it. It is for one goroutine alone.
func (e *entry) revoke() {
	select {
	case <-e.revoked:
	default:
		close(e.revoked)
	}
}

// ofToken finds the entry of a token. It takes the same time for each token and
// for none, whether and where it is found.
func ofToken(entries []*entry, token string) *entry {
	sum := sha256.Sum256([]byte(token))
	found := -1
	for i, e := range entries {
		if e.isToken {
			found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], e.token[:]), i, found)
		}
	}
	if found < 0 {
		return nil
	}
	return entries[found]
}

// ofCertificate finds the entry of a verified certificate: by its fingerprint,
// else by its common name.
func ofCertificate(entries []*entry, c *x509.Certificate) *entry {
	sum := sha256.Sum256(c.Raw)
	for _, credential := range []string{fingerprintPrefix + hex.EncodeToString(sum[:]), commonNamePrefix + c.Subject.CommonName} {
		if i := slices.IndexFunc(entries, func(e *entry) bool { return e.Credential == credential }); i >= 0 {
			return entries[i]
		}
	}
	return nil
}
