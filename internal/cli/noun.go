package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/nox"
)

func (a *app) nouns() *cobra.Command {
	c := group("noun", "Name, print, encode and decode nouns",
		a.nounID(), a.nounPrint(), a.nounEncode(), a.nounDecode())
	c.Long = "A noun is a number below 2^64 or a pair of nouns: [1 2 [3 4]], which is short for [1 [2 [3 4]]].\n" +
		"It is what cells compute with. NOUN is such a text, or - to read it from standard input. Quote it, so\n" +
		"that the shell leaves the brackets alone."
	return c
}

// nounDoc is what is known of a noun.
type nounDoc struct {
	Schema   string  `json:"schema"`
	Noun     string  `json:"noun"`
	Nodes    uint64  `json:"nodes"`
	Depth    uint64  `json:"depth"`
	Identity *string `json:"identity"`
	Artifact *string `json:"artifact"`
}

// printNoun answers with a noun: with everything about it for programs.
func (a *app) printNoun(n nox.Noun, people func()) error {
	d := nounDoc{Schema: "writ.noun.v1", Noun: n.String(), Nodes: n.Size(), Depth: n.Depth()}
	if a.json {
		if id, err := n.Identity(); err == nil {
			text := id.String()
			d.Identity = &text
		}
		if b, err := nox.Encode(n); err == nil {
			text := hex.EncodeToString(b)
			d.Artifact = &text
		}
	}
	return a.print(d, people)
}

// maxNounInput bounds what is read from standard input. The longest noun that is
// read has less than half of it, so there is room for white space.
const maxNounInput = 4 << 20

// readNounInput reads standard input.
func (a *app) readNounInput(ctx context.Context) ([]byte, error) {
	b, err := a.readInput(ctx, "-", maxNounInput+1)
	if err == nil && len(b) > maxNounInput {
		err = &usageError{fmt.Errorf("standard input has more than %d bytes, which no noun needs", maxNounInput)}
	}
	return b, err
}

// readNoun reads the noun of an argument, or of standard input.
func (a *app) readNoun(ctx context.Context, text string) (nox.Noun, error) {
	if text == "-" {
		b, err := a.readNounInput(ctx)
		if err != nil {
			return nox.Noun{}, err
		}
		text = string(b)
	}
	return nox.Parse(text)
}

func (a *app) nounID() *cobra.Command {
	return &cobra.Command{
		Use:   "id NOUN",
		Short: "Print the identity of a noun",
		Long: "Id prints the particle that names the data. Only nouns whose numbers are all below 2^64 - 2^32 + 1\n" +
			"have one.",
		Example: "  writ noun id '[1 2]'",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := a.readNoun(c.Context(), args[0])
			if err != nil {
				return err
			}
			id, err := n.Identity()
			if err != nil {
				return err
			}
			return a.printNoun(n, func() { fmt.Fprintln(a.out, id) })
		},
	}
}

func (a *app) nounPrint() *cobra.Command {
	return &cobra.Command{
		Use:     "print NOUN",
		Short:   "Print a noun with brackets around every pair",
		Example: "  writ noun print '[1 2 [3 4]]'",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := a.readNoun(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.printNoun(n, func() { fmt.Fprintln(a.out, n) })
		},
	}
}

func (a *app) nounEncode() *cobra.Command {
	var raw bool
	c := &cobra.Command{
		Use:   "encode NOUN",
		Short: "Print the artifact of a noun",
		Long: "Encode prints the bytes that stand for a noun where cells keep it, in hexadecimal. A noun artifact has\n" +
			"at most 65,536 nodes and is at most 128 levels deep.",
		Example: "  writ noun encode '[1 2]'\n  writ noun encode --raw '[1 2]' > noun.bin",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if raw && a.json {
				return &usageError{errors.New("--raw and --json cannot be used together")}
			}
			n, err := a.readNoun(c.Context(), args[0])
			if err != nil {
				return err
			}
			b, err := nox.Encode(n)
			if err != nil {
				return err
			}
			return a.printNoun(n, func() {
				if raw {
					_, _ = a.out.Write(b)
					return
				}
				fmt.Fprintf(a.out, "%x\n", b)
			})
		},
	}
	c.Flags().BoolVar(&raw, "raw", false, "write the bytes as they are")
	return c
}

func (a *app) nounDecode() *cobra.Command {
	var raw bool
	c := &cobra.Command{
		Use:   "decode HEX",
		Short: "Print the noun of an artifact",
		Long: "Decode reads a noun artifact in hexadecimal, or from standard input if - stands in its place, and\n" +
			"prints its noun.",
		Example: "  writ noun decode 000700000000000000\n  writ noun decode --raw - < noun.bin",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if raw && args[0] != "-" {
				return &usageError{errors.New("--raw reads standard input; put - in place of the artifact")}
			}
			b := []byte(args[0])
			if args[0] == "-" {
				var err error
				if b, err = a.readNounInput(c.Context()); err != nil {
					return err
				}
			}
			if !raw {
				var err error
				if b, err = hex.DecodeString(strings.Join(strings.Fields(string(b)), "")); err != nil {
					return &usageError{fmt.Errorf("expected an artifact in hexadecimal: %w", err)}
				}
			}
			n, err := nox.Decode(b)
			if err != nil {
				return err
			}
			return a.printNoun(n, func() { fmt.Fprintln(a.out, n) })
		},
	}
	c.Flags().BoolVar(&raw, "raw", false, "read the bytes as they are")
	return c
}
