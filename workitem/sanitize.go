package workitem

import (
	"slices"
	"strings"
)

// The privacy sanitiser (section 7.5). It keeps out of the store what a person or a
// machine could be found by, or be entered with, and what has no business in a
// description or in metadata. It is deterministic: equal input gives equal output,
// so a record may be compared with its sanitised form. Identifiers that look like
// personal data pass it in their opaque encoding.
//
// What matches is defined by the expressions in sanitize_test.go, against which
// the scanners below are fuzzed. Character classes are those of ASCII; a byte above
// it is neither a letter nor a space.

// Sanitize replaces everything in free text that matches one of the patterns by
// [REDACTED_TYPE]. Text without a match is returned as it is, without allocation.
func Sanitize(s string) string {
	if grouped(s) {
		return s
	}
	found := survey(s)
	if found == 0 {
		return s
	}
	for i := range patterns {
		if p := &patterns[i]; found&p.needs != 0 {
			s = redact(s, p)
		}
	}
	return s
}

// SanitizeMember sanitises the text of one member of an object: by the member's
// name, and if that says nothing by the patterns of Sanitize. path has the names of
// the enclosing members, outermost first.
func SanitizeMember(path []string, name, value string) string {
	if value == "" {
		return value
	}
	if replacement := namedRedaction(path, name); replacement != "" {
		return replacement
	}
	return Sanitize(value)
}

// SanitizeValue sanitises a decoded JSON value: texts, []any and map[string]any in
// any depth. A member whose name says that it is private is replaced as a whole
// unless it is empty, a number, a boolean or null; those pass everywhere, like
// values of any other type. v is not changed; the result may share parts with it.
func SanitizeValue(v any) any {
	return sanitizeValue(nil, v)
}

func sanitizeValue(path []string, v any) any {
	switch v := v.(type) {
	case string:
		return Sanitize(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = sanitizeValue(path, e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, e := range v {
			if replacement := namedRedaction(path, name); replacement != "" && hasText(e) {
				out[name] = replacement
			} else {
				out[name] = sanitizeValue(append(slices.Clip(path), name), e)
			}
		}
		return out
	}
	return v
}

// hasText says whether a value is one that the name of its member may redact.
func hasText(v any) bool {
	switch v := v.(type) {
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return false
}

// namedRedaction gives what replaces every value of a member with this name, or "".
func namedRedaction(path []string, name string) string {
	switch name = memberName(name); name {
	case "authorization", "api_key", "apikey", "access_token", "refresh_token",
		"client_secret", "password", "secret", "token":
		return "[REDACTED_SECRET]"
	case "path", "file_path", "local_path", "root_path", "workspace_path", "home",
		"host", "hostname", "endpoint", "endpoint_url", "base_url", "canonical_url",
		"html_url", "source_url", "source_uri", "web_url", "weburl", "pdf_url", "url",
		"uri", "href", "dsn":
		return "[REDACTED_LOCATION]"
	case "owner", "owner_name", "author", "author_name", "assignee", "created_by",
		"updated_by", "requester", "display_name", "first_name", "last_name",
		"full_name", "person_name", "user_name", "username", "user_email",
		"birth_date", "date_of_birth", "employee_id", "ip_address":
		return "[REDACTED_PERSON]"
	case "name":
		for _, enclosing := range path {
			enclosing = memberName(enclosing)
			for _, who := range [...]string{"author", "employee", "owner", "person", "user"} {
				if strings.Contains(enclosing, who) {
					return "[REDACTED_PERSON]"
				}
			}
		}
	}
	return ""
}

// memberName lowers a name and makes every run of characters other than letters and
// digits one underscore.
func memberName(name string) string {
	plain, under := true, false
	for i := 0; i < len(name) && plain; i++ {
		c := name[i]
		plain = 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' && !under
		under = c == '_'
	}
	if plain {
		return name
	}
	var b strings.Builder
	under = false
	for _, c := range strings.ToLower(name) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			b.WriteRune(c)
			under = false
		case !under:
			b.WriteByte('_')
			under = true
		}
	}
	return b.String()
}

// What a text has that some pattern can't do without.
const (
	hasFourDigits    = 1 << iota // four digits in a row
	hasAt                        // an @
	hasTokenPrefix               // k- or a letter of gh?_ and _
	hasBearer                    // r and a space
	hasColonSlash                // a colon and a slash of either kind
	hasSlash                     // a /
	hasDottedDigits              // three dots between digits
	hasMACSeparators             // five colons and hyphens
	hasIBANPrefix                // two capitals and two digits
)

// patterns are applied in this order, each to what the ones before it have left.
// What replaces a match has no digit and none of the other characters that needs
// speaks of, so a later pattern finds nothing in a text that the survey ruled out.
var patterns = [...]pattern{
	{"[REDACTED_SSN]", hasFourDigits, findSSN},
	{"[REDACTED_TAX_ID]", hasFourDigits, findTaxID},
	{"[REDACTED_CREDIT_CARD]", hasFourDigits, findCreditCard},
	{"[REDACTED_EMAIL]", hasAt, findEmail},
	{"[REDACTED_API_TOKEN]", hasTokenPrefix, findAPIToken},
	{"[REDACTED_BEARER_TOKEN]", hasBearer, findBearerToken},
	{"[REDACTED_PHONE]", hasFourDigits, findPhone},
	{"[REDACTED_WINDOWS_USER_PATH]", hasColonSlash, findWindowsUserPath},
	{"[REDACTED_WINDOWS_ABSOLUTE_PATH]", hasColonSlash, findWindowsAbsolutePath},
	{"[REDACTED_POSIX_USER_PATH]", hasSlash, findPosixUserPath},
	{"[REDACTED_POSIX_LOCAL_PATH]", hasSlash, findPosixLocalPath},
	{"[REDACTED_FILE_URI]", hasColonSlash, findFileURI},
	{"[REDACTED_IPV4]", hasDottedDigits, findIPv4},
	{"[REDACTED_MAC_ADDRESS]", hasMACSeparators, findMACAddress},
	{"[REDACTED_IBAN]", hasIBANPrefix, findIBAN},
}

type pattern struct {
	replacement string
	needs       uint
	// find gives the first match that begins at from or later, and of those that
	// begin there the longest; end is 0 if there is none.
	find func(s scanned, from int) (start, end int)
}

// redact replaces all matches of one pattern.
func redact(s string, p *pattern) string {
	start, end := p.find(scanned(s), 0)
	if end == 0 {
		return s
	}
	var b strings.Builder
	from := 0
	for end != 0 {
		b.WriteString(s[from:start])
		b.WriteString(p.replacement)
		from = end
		start, end = p.find(scanned(s), from)
	}
	b.WriteString(s[from:])
	return b.String()
}

// grouped says whether s has the form of an opaque-encoded value, as nearly every
// text that is stored has. In groups of three characters of its alphabet nothing
// matches but an address, which is not looked for there.
func grouped(s string) bool {
	if len(s) <= len(opaquePrefix) || s[:len(opaquePrefix)] != opaquePrefix {
		return false
	}
	s = s[len(opaquePrefix):]
	for len(s) > 3 {
		if byteClasses[s[0]]&byteClasses[s[1]]&byteClasses[s[2]]&chGroup == 0 || s[3] != '.' {
			return false
		}
		s = s[4:]
	}
	for i := range len(s) {
		if byteClasses[s[i]]&chGroup == 0 {
			return false
		}
	}
	return true
}

// survey looks at every byte once and says which patterns could match at all.
func survey(s string) uint {
	var found uint
	dots, separators := 0, 0
	for i := 0; i < len(s); i++ {
		switch c := byteClasses[s[i]]; {
		case c&chMark == 0:
		case c&chDigit != 0:
			if i < 3 || byteClasses[s[i-1]]&chDigit == 0 {
				continue
			}
			if b := byteClasses[s[i-2]] & byteClasses[s[i-3]]; b&chDigit != 0 {
				found |= hasFourDigits
			} else if b&chUpper != 0 {
				found |= hasIBANPrefix
			}
		default:
			switch s[i] {
			case '.':
				if i > 0 && i+1 < len(s) && byteClasses[s[i-1]]&byteClasses[s[i+1]]&chDigit != 0 {
					if dots++; dots == 3 {
						found |= hasDottedDigits
					}
				}
			case '@':
				found |= hasAt
			case '/':
				found |= hasSlash
			case ':', '-':
				if separators++; separators == 5 {
					found |= hasMACSeparators
				}
				if s[i] == '-' {
					if i > 0 && s[i-1] == 'k' {
						found |= hasTokenPrefix
					}
				} else if i+1 < len(s) && (s[i+1] == '/' || s[i+1] == '\\') {
					found |= hasColonSlash
				}
			case '_':
				if i > 0 && strings.IndexByte("pousr", s[i-1]) >= 0 {
					found |= hasTokenPrefix
				}
			default: // white space
				if i > 0 && s[i-1]|0x20 == 'r' {
					found |= hasBearer
				}
			}
		}
	}
	return found
}

// The classes of bytes.
const (
	chDigit     = 1 << iota // 0-9
	chUpper                 // A-Z
	chLower                 // a-z
	chWord                  // A-Z a-z 0-9 _
	chHex                   // 0-9 A-F a-f
	chSpace                 // tab, line feed, form feed, carriage return, space
	chPath                  // what a POSIX path in a text goes on with
	chDrive                 // what a Windows path in a text goes on with
	chMailLocal             // A-Z a-z 0-9 . _ % + -
	chMailHost              // A-Z a-z 0-9 . -
	chBearer                // A-Z a-z 0-9 . _ ~ + / = -
	chDashed                // A-Z a-z 0-9 _ -
	chOpaque                // A-Z a-z 0-9 _ - . =
	chGroup                 // A-Z a-z 0-9 _ - =
	chMark                  // what the survey looks at
)

var byteClasses = func() (t [256]uint16) {
	set := func(class uint16, chars string) {
		for i := range len(chars) {
			t[chars[i]] |= class
		}
	}
	for c := range 256 {
		switch {
		case '0' <= c && c <= '9':
			t[c] |= chDigit | chHex | chMark
		case 'A' <= c && c <= 'Z':
			t[c] |= chUpper
		case 'a' <= c && c <= 'z':
			t[c] |= chLower
		}
		if t[c]&(chDigit|chUpper|chLower) != 0 {
			t[c] |= chWord | chMailLocal | chMailHost | chBearer | chDashed | chOpaque | chGroup
		}
		if c > ' ' && strings.IndexByte("\"'`<>|;,", byte(c)) < 0 {
			t[c] |= chPath
		}
		if c >= ' ' && strings.IndexByte("\"<>|*?;,", byte(c)) < 0 {
			t[c] |= chDrive
		}
	}
	set(chHex, "ABCDEFabcdef")
	set(chWord, "_")
	set(chSpace|chMark, "\t\n\f\r ")
	set(chMailLocal, "._%+-")
	set(chMailHost, ".-")
	set(chBearer, "._~+/=-")
	set(chDashed, "_-")
	set(chOpaque, "_-.=")
	set(chGroup, "_-=")
	set(chMark, ".@/:-_")
	return t
}()

// scanned is a text that is searched for matches.
type scanned string

// is says whether s has a byte of the class at i.
func (s scanned) is(i int, class uint16) bool {
	return uint(i) < uint(len(s)) && byteClasses[s[i]]&class != 0
}

// run gives the end of the longest run of the class that begins at i.
func (s scanned) run(i int, class uint16) int {
	for i < len(s) && byteClasses[s[i]]&class != 0 {
		i++
	}
	return i
}

// all says whether n bytes of the class follow at i.
func (s scanned) all(i, n int, class uint16) bool {
	if i < 0 || i+n > len(s) {
		return false
	}
	for _, c := range []byte(s[i : i+n]) {
		if byteClasses[c]&class == 0 {
			return false
		}
	}
	return true
}

// at says whether s has one of the bytes at i.
func (s scanned) at(i int, bytes string) bool {
	return uint(i) < uint(len(s)) && strings.IndexByte(bytes, s[i]) >= 0
}

// folded says whether text, which is in lower case, follows at i in any case.
func (s scanned) folded(i int, text string) bool {
	if i < 0 || i+len(text) > len(s) {
		return false
	}
	for j := range len(text) {
		c := s[i+j]
		if s.is(i+j, chUpper) {
			c |= 0x20
		}
		if c != text[j] {
			return false
		}
	}
	return true
}

// alone says whether s[start:end] is no part of a longer word.
func (s scanned) alone(start, end int) bool {
	return !s.is(start-1, chWord) && !s.is(end, chWord)
}

func findSSN(s scanned, from int) (int, int) {
	for i := from + 3; i+8 <= len(s); i++ {
		if s[i] == '-' && s.all(i-3, 3, chDigit) && s.all(i+1, 2, chDigit) && s.at(i+3, "-") &&
			s.all(i+4, 4, chDigit) && s.alone(i-3, i+8) {
			return i - 3, i + 8
		}
	}
	return 0, 0
}

func findTaxID(s scanned, from int) (int, int) {
	for i := from + 2; i+8 <= len(s); i++ {
		if s[i] == '-' && s.all(i-2, 2, chDigit) && s.all(i+1, 7, chDigit) && s.alone(i-2, i+8) {
			return i - 2, i + 8
		}
	}
	return 0, 0
}

func findCreditCard(s scanned, from int) (int, int) {
next:
	for i := from; i+16 <= len(s); i++ {
		if !s.is(i, chDigit) || s.is(i-1, chWord) {
			continue
		}
		end := i
		for group := range 4 {
			if group > 0 && s.at(end, " -") {
				end++
			}
			if !s.all(end, 4, chDigit) {
				continue next
			}
			end += 4
		}
		if s.alone(i, end) {
			return i, end
		}
	}
	return 0, 0
}

func findEmail(s scanned, from int) (int, int) {
	for i := from; i < len(s); i++ {
		if s[i] != '@' {
			continue
		}
		start := i
		for start > from && s.is(start-1, chMailLocal) {
			start--
		}
		if start == i {
			continue
		}
		// The host ends with the last dot that has something before it and two
		// letters or more behind it.
		hostEnd := s.run(i+1, chMailHost)
		for dot := hostEnd - 3; dot > i+1; dot-- {
			if s[dot] == '.' {
				if end := s[:hostEnd].run(dot+1, chUpper|chLower); end >= dot+3 {
					return start, end
				}
			}
		}
	}
	return 0, 0
}

func findAPIToken(s scanned, from int) (int, int) {
	for i := from; i < len(s); i++ {
		if s.is(i-1, chWord) {
			continue
		}
		if strings.HasPrefix(string(s[i:]), "sk-") {
			if end := s.run(i+3, chDashed); end >= i+3+16 {
				return i, end
			}
		} else if strings.HasPrefix(string(s[i:]), "gh") && s.at(i+2, "pousr") && s.at(i+3, "_") {
			if end := s.run(i+4, chWord); end >= i+4+20 {
				return i, end
			}
		}
	}
	return 0, 0
}

func findBearerToken(s scanned, from int) (int, int) {
	for i := from; i < len(s); i++ {
		if s[i]|0x20 != 'b' || s.is(i-1, chWord) || !s.folded(i, "bearer") {
			continue
		}
		token := s.run(i+6, chSpace)
		if end := s.run(token, chBearer); token > i+6 && end >= token+12 {
			return i, end
		}
	}
	return 0, 0
}

func findPhone(s scanned, from int) (int, int) {
	for i := from; i < len(s); i++ {
		end := 0
		switch {
		case s[i] == '+':
			if s.at(i+1, "1") {
				end = s.localPhone(s.separated(i + 2))
			}
		case s[i] == '(':
			end = s.localPhone(i)
		case s.is(i, chDigit) && !s.is(i-1, chWord):
			end = s.localPhone(i)
			if s[i] == '1' {
				end = max(end, s.localPhone(s.separated(i+1)))
			}
		}
		if end != 0 {
			return i, end
		}
	}
	return 0, 0
}

// separated skips one separator of a phone number, if there is one.
func (s scanned) separated(i int) int {
	if s.at(i, "-. ") {
		return i + 1
	}
	return i
}

// localPhone gives the end of the ten digits of a phone number, or 0.
func (s scanned) localPhone(i int) int {
	if s.at(i, "(") {
		if !s.all(i+1, 3, chDigit) || !s.at(i+4, ")") {
			return 0
		}
		i += 5
	} else if s.all(i, 3, chDigit) {
		i += 3
	} else {
		return 0
	}
	if i = s.separated(i); !s.all(i, 3, chDigit) {
		return 0
	}
	if i = s.separated(i + 3); !s.all(i, 4, chDigit) || s.is(i+4, chWord) {
		return 0
	}
	return i + 4
}

func findWindowsUserPath(s scanned, from int) (int, int) {
	for i := from + 1; i < len(s); i++ {
		if !s.drive(i) {
			continue
		}
		j := i + 2
		for s.at(j, `\/`) {
			j++
		}
		for _, root := range [...]string{"users", "documents and settings"} {
			// Something must follow the slash behind the root.
			k := j + len(root)
			if s.folded(j, root) && s.at(k, `\/`) && s.is(k+1, chDrive) {
				return i - 1, s.run(k, chDrive)
			}
		}
	}
	return 0, 0
}

func findWindowsAbsolutePath(s scanned, from int) (int, int) {
	for i := from + 1; i < len(s); i++ {
		if s.drive(i) {
			return i - 1, s.run(i+2, chDrive)
		}
	}
	return 0, 0
}

// drive says whether the colon of a drive is at i: with its letter, which is alone,
// and a slash.
func (s scanned) drive(i int) bool {
	return s[i] == ':' && s.is(i-1, chUpper|chLower) && !s.is(i-2, chWord) && s.at(i+1, `\/`)
}

func findPosixUserPath(s scanned, from int) (int, int) {
	return findPosixPath(s, from, homeRoots[:])
}

func findPosixLocalPath(s scanned, from int) (int, int) {
	return findPosixPath(s, from, localRoots[:])
}

var (
	homeRoots  = [...]string{"home/", "Users/", "var/home/", "export/home/"}
	localRoots = [...]string{"mnt/", "opt/", "private/tmp/", "root/", "srv/", "tmp/", "var/tmp/", "workspace/", "workspaces/"}
)

// findPosixPath finds an absolute path below one of the roots. A slash inside of a
// path or of a URL begins none.
func findPosixPath(s scanned, from int, roots []string) (int, int) {
	for i := from; i < len(s); i++ {
		if s[i] != '/' || s.is(i-1, chWord) || s.at(i-1, "./~") {
			continue
		}
		for _, root := range roots {
			if end := i + 1 + len(root); strings.HasPrefix(string(s[i+1:]), root) && s.is(end, chPath) {
				return i, s.run(end, chPath)
			}
		}
	}
	return 0, 0
}

func findFileURI(s scanned, from int) (int, int) {
	for i := from + 4; i < len(s); i++ {
		if s[i] == ':' && s.folded(i-4, "file") && !s.is(i-5, chWord) && s.at(i+1, "/") && s.is(i+2, chPath) {
			return i - 4, s.run(i+2, chPath)
		}
	}
	return 0, 0
}

func findIPv4(s scanned, from int) (int, int) {
next:
	for i := from; i < len(s); i++ {
		if !s.is(i, chDigit) || s.is(i-1, chWord) || s.at(i-1, ".") && s.is(i-2, chDigit) {
			continue
		}
		end := i
		for octet := range 4 {
			if octet > 0 {
				if !s.at(end, ".") {
					continue next
				}
				end++
			}
			n, begin := 0, end
			for end < begin+3 && s.is(end, chDigit) {
				n = n*10 + int(s[end]-'0')
				end++
			}
			if end == begin || n > 255 {
				continue next
			}
		}
		if s.is(end, chWord) || s.at(end, ".") && s.is(end+1, chDigit) || s.insideOpaque(i) {
			continue
		}
		return i, end
	}
	return 0, 0
}

// insideOpaque says whether i is inside of an opaque-encoded value. Its groups of
// three characters with a dot between them may all be digits: of all patterns this
// is the only one that an encoded value could match.
func (s scanned) insideOpaque(i int) bool {
	for s.is(i-1, chOpaque) {
		i--
	}
	return strings.HasSuffix(string(s[:i]), opaquePrefix)
}

func findMACAddress(s scanned, from int) (int, int) {
next:
	for i := from + 2; i+15 <= len(s); i++ {
		if !s.at(i, ":-") || !s.all(i-2, 2, chHex) || !s.alone(i-2, i+15) {
			continue
		}
		for pair := i; pair < i+15; pair += 3 {
			if !s.at(pair, ":-") || !s.all(pair+1, 2, chHex) {
				continue next
			}
		}
		return i - 2, i + 15
	}
	return 0, 0
}

func findIBAN(s scanned, from int) (int, int) {
	for i := from; i+15 <= len(s); i++ {
		if !s.is(i, chUpper) || s.is(i-1, chWord) || !s.is(i+1, chUpper) || !s.all(i+2, 2, chDigit) {
			continue
		}
		if end := s.run(i+4, chUpper|chDigit); end >= i+15 && end <= i+34 && !s.is(end, chWord) {
			return i, end
		}
		// In groups of four, the last one of which may be shorter; fifteen in all at
		// least, as without the spaces.
		end := 0
		for group, j := 0, i+4; group <= 7 && s.at(j, " "); group, j = group+1, j+5 {
			n := s[:min(len(s), j+5)].run(j+1, chUpper|chDigit) - (j + 1)
			whole := n == 4 && group < 7
			short := n >= 1 && n <= 3 && group >= 3 || n == 3 && group == 2
			if (whole && group >= 2 || short) && !s.is(j+1+n, chWord) {
				end = j + 1 + n
			}
			if !whole {
				break
			}
		}
		if end != 0 {
			return i, end
		}
	}
	return 0, 0
}
