package auth

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

const (
	maxKeyFile = 256 << 10 // bytes of a set of keys
	maxKeys    = 32        // keys of a set
	minSecret  = 32        // bytes of an HS256 secret
	minRSA     = 2048      // bits of an RSA modulus
)

// key verifies tokens of one algorithm.
type key struct {
	id  string // "" if it has none: then it is tried whatever kid a token names
	alg jose.SignatureAlgorithm
	key any // []byte, *rsa.PublicKey or *ecdsa.PublicKey
}

// keySet has at most maxKeys keys.
type keySet []key

// has says whether a key of that algorithm and id is there.
func (s keySet) has(alg jose.SignatureAlgorithm, kid string) bool {
	for i := range s {
		if s[i].fits(alg, kid) {
			return true
		}
	}
	return false
}

// fits says whether a key may verify a token with that header.
func (k *key) fits(alg jose.SignatureAlgorithm, kid string) bool {
	return k.alg == alg && (kid == "" || k.id == "" || k.id == kid)
}

// newKey binds a key to its algorithm: the one that it names, else the only one
// of those taken here that its type has.
func newKey(id, alg string, material any) (key, error) {
	k := key{id: id, key: material}
	switch m := material.(type) {
	case []byte:
		k.alg = jose.HS256
		if len(m) < minSecret {
			return key{}, fmt.Errorf("is a secret of %d bytes, expected at least %d", len(m), minSecret)
		}
	case *rsa.PublicKey:
		k.alg = jose.RS256
		if n := m.N.BitLen(); n < minRSA {
			return key{}, fmt.Errorf("is an RSA key of %d bits, expected at least %d", n, minRSA)
		}
	case *ecdsa.PublicKey:
		k.alg = jose.ES256
		if m.Curve != elliptic.P256() {
			return key{}, fmt.Errorf("is on the curve %s, expected P-256", m.Curve.Params().Name)
		}
	case *rsa.PrivateKey, *ecdsa.PrivateKey:
		return key{}, errors.New("is a private key, expected its public part alone")
	default:
		return key{}, errors.New("is of another type than oct, RSA and EC")
	}
	if alg != "" && alg != string(k.alg) {
		return key{}, fmt.Errorf("names an algorithm that is not taken here or not possible for it, expected %s", k.alg)
	}
	return k, nil
}

// parseKeys reads the keys of a file: a JWKS (a JSON object with the member keys,
// or one JWK), or public keys and certificates in PEM. Every key must be usable.
func parseKeys(b []byte) (keySet, error) {
	if len(b) > maxKeyFile {
		return nil, fmt.Errorf("has %d bytes, expected at most %d", len(b), maxKeyFile)
	}
	if b = bytes.TrimSpace(b); bytes.HasPrefix(b, []byte("{")) {
		return parseJWKS(b, true)
	}
	return parsePEM(b)
}

// parseJWKS reads a JWKS. A file must be usable as a whole, and may have secrets.
// Of a set from the network what is of no use here is left out, secrets included.
func parseJWKS(b []byte, file bool) (keySet, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(b, &set); err != nil {
		return nil, errors.New("is not a JSON Web Key Set: expected an object with the array keys")
	}
	if set.Keys == nil && file {
		set.Keys = []json.RawMessage{b}
	}
	var keys keySet
	for i, raw := range set.Keys {
		k, err := parseJWK(raw)
		if err == nil && len(keys) == maxKeys {
			return nil, fmt.Errorf("has more than %d keys", maxKeys)
		}
		if !file && (err != nil || k.alg == jose.HS256) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("has an unusable key %d: it %w", i+1, err)
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, errors.New("has no key that can verify HS256, RS256 or ES256")
	}
	return keys, nil
}

func parseJWK(raw []byte) (key, error) {
	var k jose.JSONWebKey
	if err := k.UnmarshalJSON(raw); err != nil {
		return key{}, errors.New("is not a valid JSON Web Key") // the cause might show a secret
	}
	if k.Use != "" && k.Use != "sig" {
		return key{}, errors.New(`is not for signatures: its use is not "sig"`)
	}
	return newKey(k.KeyID, k.Algorithm, k.Key)
}

func parsePEM(b []byte) (keySet, error) {
	var keys keySet
	for len(bytes.TrimSpace(b)) > 0 {
		block, rest := pem.Decode(b)
		if block == nil {
			return nil, errors.New("is neither a JSON Web Key Set nor PEM")
		}
		b = rest
		if len(keys) == maxKeys {
			return nil, fmt.Errorf("has more than %d keys", maxKeys)
		}
		material, err := pemKey(block)
		if err != nil {
			return nil, fmt.Errorf("has an unusable block %d: it %w", len(keys)+1, err)
		}
		k, err := newKey("", "", material)
		if err != nil {
			return nil, fmt.Errorf("has an unusable block %d: it %w", len(keys)+1, err)
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, errors.New("is empty")
	}
	return keys, nil
}

func pemKey(block *pem.Block) (any, error) {
	switch block.Type {
	case "PUBLIC KEY":
		k, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, errors.New("is not a valid public key")
		}
		return k, nil
	case "RSA PUBLIC KEY":
		k, err := x509.ParsePKCS1PublicKey(block.Bytes)
		if err != nil {
			return nil, errors.New("is not a valid RSA public key")
		}
		return k, nil
	case "CERTIFICATE":
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New("is not a valid certificate")
		}
		return c.PublicKey, nil
	}
	return nil, errors.New("is neither a public key nor a certificate")
}
