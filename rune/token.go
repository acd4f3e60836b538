package rune

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// The bounds of a source.
const (
	MaxSource = 8192 // bytes
	MaxTokens = 512  // without the end
)

// token is one word of a source.
type token struct {
	kind       tokenKind
	start, end int    // offsets in the source
	number     uint64 // of a number
	text       string // a name, a slot without its ~, or the value of a string

	comments []comment // what stands before it
	blank    bool      // an empty line stands before it and after the last comment
}

// comment is one from // to the end of its line.
type comment struct {
	text  string // with the slashes, without white space at its end
	own   bool   // it has a line of its own, else it follows a token
	blank bool   // an empty line stands before it
}

type tokenKind uint8

// Keywords and signs follow in the order of their spellings.
const (
	tokenEnd tokenKind = iota
	tokenNumber
	tokenString
	tokenName
	tokenSlot

	keyLet
	keyRebind
	keyLoop
	keyContinue
	keyIf
	keyElse
	keyTrue
	keyFalse

	signEqual
	signUnequal
	signLessEqual
	signGreaterEqual
	signAnd
	signOr
	signPlus
	signMinus
	signTimes
	signLess
	signGreater
	signNot
	signOpen
	signClose
	signOpenBracket
	signCloseBracket
	signOpenBrace
	signCloseBrace
	signComma
	signSemicolon
	signAssign
)

var spellings = [...]string{
	"the end of the text", "a number", "a string", "a name", "a slot",
	"let", "rebind", "loop", "continue", "if", "else", "true", "false",
	"==", "!=", "<=", ">=", "&&", "||", "+", "-", "*", "<", ">", "!",
	"(", ")", "[", "]", "{", "}", ",", ";", "=",
}

const _ = uint(len(spellings) - 1 - int(signAssign))

func (k tokenKind) String() string { return spellings[k] }

// slots are the members of the base, in their order.
var slots = [...]string{"self", "now", "here", "caps", "code", "libs", "mem", "world"}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isWord(c byte) bool   { return isLetter(c) || isDigit(c) }

// scan splits a source into tokens; the last one is the end.
func scan(t *text) ([]token, error) {
	src := t.source
	if len(src) > MaxSource {
		err := t.refuse(MaxSource, MaxSource, "the source has more than %d bytes", MaxSource)
		err.excerpt = "" // the line may be as long as the source
		return nil, err
	}
	for i := 0; i < len(src); {
		c, n := utf8.DecodeRuneInString(src[i:])
		if c == utf8.RuneError && n == 1 {
			return nil, t.refuse(i, i+1, "the source must be UTF-8; byte 0x%02x is not", src[i])
		}
		i += n
	}
	var tokens []token
	next := token{}
	fresh, empty := true, false // only white space on this line so far; an empty line before
	i := 0
	for {
		lines := 0
		for i < len(src) && (src[i] == ' ' || src[i] == '\t' || src[i] == '\r' || src[i] == '\n') {
			if src[i] == '\n' {
				lines++
			}
			i++
		}
		if lines > 0 {
			empty = lines > 1 && len(tokens)+len(next.comments) > 0
			fresh = true
		}
		if strings.HasPrefix(src[i:], "//") {
			end := strings.IndexByte(src[i:], '\n')
			if end < 0 {
				end = len(src) - i
			}
			next.comments = append(next.comments, comment{
				text:  strings.TrimRight(src[i:i+end], " \t\r"),
				own:   fresh,
				blank: empty,
			})
			i += end
			fresh, empty = false, false
			continue
		}
		next.start, next.blank = i, empty
		fresh, empty = false, false
		if i == len(src) {
			next.end = i
			return append(tokens, next), nil
		}
		if len(tokens) == MaxTokens {
			return nil, t.refuse(i, i+1, "the source has more than %d words and signs", MaxTokens)
		}
		if err := next.read(t, i); err != nil {
			return nil, err
		}
		i = next.end
		tokens = append(tokens, next)
		next = token{}
	}
}

// read takes the token that begins at offset i.
func (k *token) read(t *text, i int) error {
	src := t.source
	c := src[i]
	switch {
	case isDigit(c):
		return k.readNumber(t, i)
	case isLetter(c):
		k.end = wordEnd(src, i)
		k.text = src[i:k.end]
		k.kind = tokenName
		for key := keyLet; key <= keyFalse; key++ {
			if spellings[key] == k.text {
				k.kind = key
			}
		}
		return nil
	case c == '~':
		k.kind = tokenSlot
		k.end = wordEnd(src, i+1)
		k.text = src[i+1 : k.end]
		for _, s := range slots {
			if s == k.text {
				return nil
			}
		}
		return t.refuse(i, k.end, "there is no slot %s; the slots are ~%s", src[i:k.end], strings.Join(slots[:], " ~"))
	case c == '"':
		return k.readString(t, i)
	}
	for s := signEqual; s <= signAssign; s++ { // those of two characters come first
		if strings.HasPrefix(src[i:], spellings[s]) {
			k.kind, k.end = s, i+len(spellings[s])
			return nil
		}
	}
	r, n := utf8.DecodeRuneInString(src[i:])
	hint := ""
	switch r {
	case '/':
		hint = "; there is no division, and a comment begins with //"
	case '&', '|':
		hint = "; did you mean " + string(r) + string(r) + "?"
	case '\'':
		hint = `; a string stands between "`
	case '\ufeff':
		hint = ", a byte order mark; save the text as UTF-8 without it"
	}
	return t.refuse(i, i+n, "unexpected character %s%s", strconv.QuoteRune(r), hint)
}

func wordEnd(src string, i int) int {
	for i < len(src) && isWord(src[i]) {
		i++
	}
	return i
}

func (k *token) readNumber(t *text, i int) error {
	src := t.source
	k.kind, k.end = tokenNumber, wordEnd(src, i)
	word := src[i:k.end]
	var err error
	digits, isHex := strings.CutPrefix(word, "0x")
	switch {
	case isHex:
		k.number, err = strconv.ParseUint(digits, 16, 64)
		digits = strings.TrimLeft(digits, "0123456789abcdefABCDEF")
	default:
		k.number, err = strconv.ParseUint(word, 10, 64)
		digits = strings.TrimLeft(digits, "0123456789")
	}
	switch {
	case digits != "":
		return t.refuse(i, k.end, "%s is not a number: write decimal digits, or 0x and hexadecimal digits", word)
	case word == "0x":
		return t.refuse(i, k.end, "hexadecimal digits are missing after 0x")
	case !isHex && len(word) > 1 && word[0] == '0':
		return t.refuse(i, k.end, "a decimal number has no leading zero")
	case err != nil:
		return t.refuse(i, k.end, "%s is too large: a number is below 2^64", word)
	}
	return nil
}

func (k *token) readString(t *text, i int) error {
	src := t.source
	k.kind = tokenString
	var value strings.Builder
	for j := i + 1; j < len(src); j++ {
		switch src[j] {
		case '"':
			k.end, k.text = j+1, value.String()
			return nil
		case '\n', '\r':
			return t.refuse(i, j, `the string does not end on its line; write \n for a line feed in it`)
		case '\\':
			j++
			e := byte(0)
			if j < len(src) {
				e = src[j]
			}
			switch e {
			case '"', '\\':
				value.WriteByte(e)
			case 'n':
				value.WriteByte('\n')
			case 't':
				value.WriteByte('\t')
			default:
				_, n := utf8.DecodeRuneInString(src[j:])
				return t.refuse(j-1, j+n, `a string knows the escapes \" \\ \n \t only`)
			}
		default:
			value.WriteByte(src[j])
		}
	}
	return t.refuse(i, len(src), "the string does not end; a \" is missing")
}
