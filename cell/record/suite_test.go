package record

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// signature writes a declaration in the way of the contract.
type signature []string

func (s *signature) put(name, form string) { *s = append(*s, name+":"+form) }

func (s *signature) uint(name string, _ *uint64)                 { s.put(name, "uint") }
func (s *signature) uints(name string, _ *[]uint64)              { s.put(name, "sequence(uint)") }
func (s *signature) ref(name string, _ *Particle)                { s.put(name, "ref") }
func (s *signature) refs(name string, _ *[]Particle)             { s.put(name, "sequence(ref)") }
func (s *signature) optional(name string, _ *Optional[Particle]) { s.put(name, "optional(ref)") }
func (s *signature) text(name string, _ *string)                 { s.put(name, "text") }
func (s *signature) nonce(name string, _ *Nonce[Particle])       { s.put(name, "nonce") }
func (s *signature) variant(name string, _ *domain, _ *uint8)    { s.put(name, "variant") }
func (s *signature) trigger(name string, _ *Trigger[Particle])   { s.put(name, "variant") }
func (s *signature) entries(name string, _ *[]Entry[Particle])   { s.put(name, "sequence(entry record)") }
func (s *signature) metrics(name string, _ *[]Metric[Particle]) {
	s.put(name, "sequence(pair(ref(metric), uint))")
}

// TestDeclarationsAreThoseOfTheContract compares each record and variant with the text
// of the contract.
func TestDeclarationsAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	text := string(Contract())
	_, text, _ = strings.Cut(text, "Records (ordered fields")
	_, text, _ = strings.Cut(text, "\n")
	declared, text, _ := strings.Cut(text, "Zero-field variants:\n")
	declared = strings.Join(strings.Fields(declared), " ")
	var want []string
	for _, r := range regexp.MustCompile(`[a-z-]+/[a-z-]+/1\(`).Split(declared, -1)[1:] {
		want = append(want, strings.TrimSuffix(strings.TrimSpace(r), ")"))
	}
	names := regexp.MustCompile(`([a-z-]+/[a-z-]+/1)\(`).FindAllStringSubmatch(declared, -1)
	list := records[Particle]()
	if len(names) != len(list) || len(want) != len(list) {
		t.Fatalf("the contract has %d records, there are %d", len(names), len(list))
	}
	for i, r := range list {
		var s signature
		r.fields(&s)
		if got := strings.Join(s, ", "); r.Schema() != names[i][1] || got != want[i] {
			t.Errorf("%s(%s), the contract has %s(%s)", r.Schema(), got, names[i][1], want[i])
		}
	}

	zero, text, _ := strings.Cut(text, "One-field variant: ")
	var variants []string
	for _, v := range strings.FieldsFunc(zero, func(c rune) bool { return c == ';' || c == '\n' }) {
		v = strings.TrimSpace(v)
		if before, rest, several := strings.Cut(v, "{"); several {
			words, _, _ := strings.Cut(rest, "}")
			for _, w := range strings.Split(words, ",") {
				variants = append(variants, before+w+"/1")
			}
		} else if v != "" {
			variants = append(variants, v)
		}
	}
	last, _, _ := strings.Cut(text, "(")
	all := make([]string, 0, len(schemaNames))
	for _, n := range names {
		all = append(all, n[1])
	}
	all = append(append(all, variants...), last, "rune/noun-artifact/1", "rune/checkpoint/1")
	if !slices.Equal(all, schemaNames) {
		t.Errorf("the schemas are %q, the contract has %q", schemaNames, all)
	}
	for _, name := range all[len(all)-2:] {
		if !strings.Contains(text, "  "+name+":") {
			t.Errorf("the contract does not describe %s", name)
		}
	}
	if len(schemaNames) > maxSchemas {
		t.Errorf("%d schemas, sets have room for %d", len(schemaNames), maxSchemas)
	}
}
