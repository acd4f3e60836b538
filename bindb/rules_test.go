package bindb_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// rules are the names of the checks of sections 17.3 and 17.4.
const rules = `
G01 G02 G03 G04 G05 G06 G07 G08 G09 G10 G11 G12 G13 G14 G15
D01 D02 D03 D04
F01 F02 F03 F04 F05 F06 F07 C01 C02 C03
T01 T02 T03 T04 T05 T06 P01 P02 P03 P04 P05 P06 P07 P08
A01 U01 U02 U03 U04 R01 R02 R03 K01 K02 K03 W01 N01 L01 L02 S01
J01 J02 J03 J04 J05 J06 J07`

// TestEveryRuleIsBroken fails for a rule that no test of the findings breaks: the
// expected findings of those tests begin with the name of the rule.
func TestEveryRuleIsBroken(t *testing.T) {
	t.Parallel()
	broken := map[string]bool{}
	expected := regexp.MustCompile(`"([A-Z]\d\d)[ "]|\(([A-Z]\d\d)\)|f\.check\("([A-Z]\d\d)"`)
	for _, file := range []string{"check_test.go", "full_test.go", "../authority/check_test.go", "../authority/closure_test.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range expected.FindAllStringSubmatch(string(source), -1) {
			broken[m[1]+m[2]] = true
		}
	}
	for _, rule := range strings.Fields(rules) {
		if !broken[rule] {
			t.Errorf("no test breaks rule %s", rule)
		}
	}
}
