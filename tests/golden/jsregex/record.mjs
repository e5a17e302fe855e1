// Asks Node what it makes of each case and writes node.json beside this file.
//
//     node tests/golden/jsregex/record.mjs
//
// A case is [source, flags, text]; the answer is "invalid", null (a miss) or [start, end] of the
// first match in UTF-16 code units. `g` is dropped before a case is run, for it has no effect on
// keys; a repeated flag is refused by Node as by us.
import { writeFileSync } from "node:fs";

const S = String.raw;
const fox = "The quick brown fox jumps over the lazy dog.";
const both = (source, text, flags = "") => [[source, flags, text], [source, flags + "u", text]];

const cases = [
  // flags alone and together
  ["fox", "", fox], ["FOX", "", fox], ["FOX", "i", fox], ["fox", "g", fox], ["the", "gi", fox],
  ["^b", "", "a\nb"], ["^b", "m", "a\nb"], ["a$", "m", "a\nb"], ["a$", "", "a\nb"],
  ["a.b", "", "a\nb"], ["a.b", "s", "a\nb"], ["a.b", "u", "a😀b"], ["a.b", "", "a😀b"],
  ["b", "y", "ab"], ["a", "y", "ab"], ["", "y", "ab"], ["^b", "my", "a\nb"], ["b$", "gimsuy", "B"],
  ["^B.c", "ims", "a\nb\nc"], ["x.y", "su", "x\u{1F600}y"], ["fox", "gy", fox], ["the", "gy", fox],
  ["^.$", "msu", "a\n😀"], ["a|b", "sy", "ba"], ["é", "giu", "É"],
  ["a", "gg", "a"], ["a", "ii", "a"], ["a", "uu", "a"], ["a", "yiy", "a"], ["a", "mm", "a"],
  ["a", "ss", "a"], ["a", "gimsuyg", "a"],
  // look-ahead and look-behind
  [S`foo(?=bar)`, "", "foobaz foobar"], [S`foo(?!bar)`, "", "foobar foobaz"],
  [S`(?<=x)y`, "", "ay xy"], [S`(?<!x)y`, "", "xy ay"], [S`(?<=a+b*)c`, "", "c bc aabbc"],
  [S`(?<=\$\d+\.)\d\d`, "", "€1.23 $45.67"], [S`(?<=^|,)b`, "", "ab,b"],
  [S`(?<=(\d+)(\d+))$`, "", "1053"], [S`(?<=\1(a))b`, "", "aab"], [S`(?<=(a)\1)b`, "", "aab"],
  [S`(?=(a+))\1b`, "", "aaab"], [S`(?=a)*b`, "", "ab"], [S`(?=a)*b`, "u", "ab"],
  [S`(?<=a)*b`, "", "ab"], [S`(?!)`, "", "a"], [S`(?=)`, "", "a"], [S`(?<=灯)塔`, "u", "高塔灯塔"],
  [S`(?<![\w])king(?!dom)`, "i", "kingdom Viking King"], [S`(?<=(?<!b)a)c`, "", "bac ac"],
  // groups, names, back-references
  [S`(?<y>\d{4})-(?<m>\d\d)`, "", "on 2024-05-06"], [S`(?<q>['"]).*?\k<q>`, "", `say "it's"`],
  [S`(?<灯>a)\k<灯>`, "", "aa"], [S`(?<𝒜>.)\k<𝒜>`, "u", "xx"], [S`(?<𝒜>.)`, "", "x"],
  [S`(?<$a_1>x)`, "", "x"], [S`\k<a>`, "", "k<a>"], [S`\k<a>`, "u", "k<a>"], [S`\k`, "", "k"],
  [S`(?<a>x)\k<b>`, "", "xx"], [S`(?<a>x)\k`, "", "xk"], [S`\k<a>(?<a>x)`, "", "x"],
  [S`(a)\1`, "", "aba aa"], [S`\1(a)`, "", "a"], [S`(a)|b\1c`, "", "bc"], [S`(?:(a)|b)\1`, "", "b"],
  [S`(?:(a)|b)*\1`, "", "abba"], [S`(z)((a+)?(b+)?(c))*`, "", "zaacbbbcac"], [S`(a*)*`, "", "b"],
  [S`(\w)\1`, "i", "aA"], [S`(ß)\1`, "iu", "ßẞ"], [S`(k)\1`, "iu", "k\u212A"],
  [S`(k)\1`, "i", "k\u212A"], [S`(.)\1`, "", "😀😀"], [S`(.)\1`, "u", "x😀😀"],
  [S`((a)|(b))+\2`, "", "aba"], [S`(?:(?=(a))a)+b\1`, "", "aaba"], [S`(a(b)?)+\2`, "", "aba"],
  // properties and classes
  [S`\p{Script=Han}`, "u", "abc灯塔"], [S`\p{Script=Han}+灯塔`, "u", "他走进旧灯塔"],
  [S`\p{L}+`, "u", "12 Ünïcode"], [S`\P{L}`, "u", "ab1"], [S`\p{Emoji}`, "u", "a😀"],
  [S`\p{Emoji}`, "u", "7"], [S`\p{Emoji_Presentation}`, "u", "7☺😀"], [S`\p{Lu}`, "u", "aÄ"],
  [S`\p{Lu}`, "iu", "a"], [S`\P{Lu}`, "iu", "A"], [S`[^\P{Lu}]`, "iu", "a"], [S`\p{L}`, "", "p{L}"],
  [S`\p{sc=Grek}`, "u", "aβ"], [S`\p{scx=Hira}`, "u", "ー"], [S`\p{Nd}`, "u", "٣"],
  [S`\p{Any}`, "u", "😀"], [S`\p{ASCII}`, "u", "é~"], [S`\p{General_Category=Mark}`, "u", "e\u0301"],
  [S`\p{Script=Thai}+`, "u", "a ภาษาไทย"], [S`\p{RI}{2}`, "u", "x🇩🇪"], [S`\p{Nope}`, "u", "a"],
  [S`\p{Script=Nope}`, "u", "a"], [S`\p{}`, "u", "a"], [S`\p`, "u", "p"], [S`\p`, "", "p"],
  [S`\p{RGI_Emoji}`, "u", "😀"], ["[^]", "", "\n"], ["a[^]b", "", "a\nb"], ["[]", "", "a"],
  ["[]|b", "", "ab"], ["[^]", "u", "😀"], ["[😀]", "", "😀"], ["[😀]", "u", "x😀"],
  ["[😀-😂]", "u", "😁"], ["[😀-😂]", "", "😁"], [S`[\u{1F600}-\u{1F64F}]`, "u", "😁"],
  [S`[a\-z]`, "", "b-"], ["[a-]", "", "-"], [S`[\w-z]`, "", "-"], [S`[\w-z]`, "u", "-"],
  ["[z-a]", "", "b"], [S`[\b]`, "", "a\b"], [S`[\cA]`, "", "\u0001"], [S`[\c_]`, "", "\u001f"],
  [S`[\c*]`, "", "\\"], [S`[\d-\w]`, "", "-"], ["[[a]]", "", "a]"], ["[a&&b]", "", "&"],
  // astral characters, halves
  ...both(".", "😀"), ...both("^.$", "😀"), ...both("..", "😀"), ...both("😀", "a😀"),
  ...both("😀+", "😀😀"), ...both("😀{2}", "😀😀"), ...both(S`\ud83d`, "😀"), ...both(S`\ude00`, "😀"),
  ...both(S`\ud83d\ude00`, "x😀"), ...both(S`(?<=\ud83d)`, "😀"), ...both(S`^[^x]$`, "😀"),
  ...both(S`\S`, "\u{20000}灯"), ...both(S`.(?=b)`, "a😀b"), ...both(S`(?<=a.)b`, "a😀b"),
  ...both(S`\W`, "a𝒳"), ...both("[^a]", "a😀"), ...both(S`\udc00`, "𐐀"), ...both("𐐀", "𐐨", "i"),
  ...both(".{3}", "a😀😀b"), ...both(S`.\b`, "😀a"),
  // case beyond ASCII
  ...both("ſ", "s", "i"), ...both("s", "ſ", "i"), ...both("K", "\u212A", "i"),
  ...both("\u212A", "k", "i"), ...both("\u212B", "å", "i"), ...both("å", "\u212B", "i"),
  ...both("\u2126", "ω", "i"), ...both("ω", "\u2126", "i"), ...both("ẞ", "ß", "i"),
  ...both("ß", "ẞ", "i"), ...both("ss", "ß", "i"), ...both("İ", "i", "i"), ...both("i", "İ", "i"),
  ...both("ı", "I", "i"), ...both("I", "ı", "i"), ...both("Σ", "ς", "i"), ...both("ς", "σ", "i"),
  ...both("ПРИВЕТ", "привет", "i"), ...both("[А-Я]+", "мир", "i"), ...both("ა", "Ა", "i"),
  ...both("Ⴀ", "ⴀ", "i"), ...both("ǅ", "ǆ", "i"), ...both("ﬀ", "ff", "i"), ...both("µ", "μ", "i"),
  ...both(S`\w`, "ſ", "i"), ...both(S`\w`, "\u212A", "i"), ...both(S`\W`, "ſ", "i"),
  ...both(S`[^\w]`, "\u212A", "i"), ...both(S`\b`, "ſ", "i"), ...both("[a-z]", "ſ", "i"),
  ...both("ά", "Ά", "i"), ...both("ΐ", "\u1FD3", "i"), ...both("é", "É"), ...both("é", "e\u0301", "i"),
  // \b \B \d \w \s beside other scripts
  [S`\bking\b`, "", "kingdom, king"], [S`\bцарь\b`, "", "царь"], [S`\b灯`, "", "a灯"],
  [S`\Bing\b`, "", "king"], [S`\bé`, "", "é"], [S`\bcaf\b`, "", "café"], [S`\d`, "", "٣3"],
  [S`\w+`, "", "ñandú"], [S`\s`, "", "a\u3000b"], [S`\s`, "", "a\uFEFFb"], [S`\s`, "", "\u180E"],
  [S`\s`, "", "\u0085"], [S`\s`, "", "\u00A0"], [S`\S`, "u", "\u2028x"], [S`\D`, "", "1๑"],
  [S`\B`, "", "😀"], [S`\B`, "u", "a"],
  // lines
  ["^b", "m", "a\u2028b"], ["^b", "m", "a\u2029b"], ["^b", "m", "a\rb"], ["^b", "m", "a\r\nb"],
  ["^b", "m", "a\u0085b"], ["^b", "m", "a\vb"], ["a$", "m", "a\u2028"], ["a$", "", "a\n"],
  ["a.b", "", "a\u2028b"], ["a.b", "", "a\u2029b"], ["a.b", "", "a\rb"], ["a.b", "", "a\u0085b"],
  ["a.b", "s", "a\u2028b"], ["^$", "m", "a\n\nb"], ["^", "m", "\n"], [S`\n^`, "m", "a\nb"],
  ["a\nb", "", "a\nb"], ["a\u2028b", "", "a\u2028b"],
  // legacy escapes
  [S`\1`, "", "\u0001"], [S`\1`, "u", "\u0001"], [S`\2(a)`, "", "\u0002a"], [S`(a)\2`, "", "a\u0002"],
  [S`(a)\2`, "", "a"], [S`\3|x`, "", "ab"], [S`(a|)\2`, "", "b"], [S`\8`, "", "8"], [S`\8`, "u", "8"],
  [S`\07`, "", "\u0007"], [S`\0`, "", "\0"], [S`\0`, "u", "\0"], [S`\01`, "u", "\u0001"],
  [S`\101`, "", "A"], [S`\400`, "", " 0"], [S`[\1]`, "", "\u0001"], [S`[\1]`, "u", "\u0001"],
  [S`\10()`, "", "\b"], [S`()()()()()()()()()()\10`, "", "x"], [S`(?<n>a)\2`, "", "a\u0002"],
  [S`\cJ`, "", "\n"], [S`\c`, "", S`\c`], [S`\c`, "u", "c"], [S`\c1`, "", S`\c1`],
  [S`\u{61}`, "", "uuu"], [S`\u{2}`, "", "uu"], [S`\u{61}`, "u", "a"], [S`\u{110000}`, "u", "a"],
  [S`\u006`, "", "u006"], [S`\u006`, "u", "u006"], [S`\x4`, "", "x4"], [S`\x4`, "u", "x4"],
  [S`\x41`, "", "A"], [S`\a`, "", "a"], [S`\a`, "u", "a"], [S`\-`, "", "-"], [S`\-`, "u", "-"],
  [S`\/`, "u", "/"], ["/", "", "a/b"], [S`\_`, "u", "_"], [S`\z`, "", "z"], [S`\Z`, "", "Z"],
  // quantifiers
  ["a+?", "", "aaa"], ["a+?b", "", "aaab"], ["a*?$", "", "aaa"], ["<.+>", "", "<a><b>"],
  ["<.+?>", "", "<a><b>"], ["a??b", "", "ab"], ["a{2}", "", "aaa"], ["a{2,}?", "", "aaa"],
  ["a{0}b", "", "ab"], ["a{,2}", "", "a{,2}"], ["a{,2}", "u", "a"], ["a{", "", "a{"],
  ["a{", "u", "a{"], ["{}", "", "{}"], ["{1}", "", "{1}"], ["a{2,1}", "", "a"], ["}", "", "}"],
  ["}", "u", "}"], ["]", "", "]"], ["]", "u", "]"], ["x{1}{2}", "", "xx"], ["(?:a{0,2}){2}b", "", "aaaab"],
  ["(?:){5}a", "", "a"], ["a{99999999999999999999}", "", "a"], ["(?:a|ab)(?:c|bcd)", "", "abcd"],
  // empty matches
  ["", "", "abc"], ["", "u", "😀"], ["x*", "", "abc"], ["$", "", "abc"], ["$", "", "a😀"], ["|a", "", "a"],
  ["(?:)", "", "a"], ["()", "", "a"], ["a||b", "", "xb"], [S`\b`, "", " ab"], [S`(?<=b)`, "", "ab"],
  ["b*$", "", "ab"], ["()$", "", "ab"], ["($)", "", "ab"], ["a|()$", "", "b"],
  // not regular expressions
  ["(", "", "("], [")", "", ")"], ["[", "", "["], ["*", "", "*"], ["+a", "", "+"], ["a**", "", "a"],
  ["a+++", "", "a"], ["(?", "", "a"], ["(?<", "", "a"], ["(?<>a)", "", "a"], ["(?<1>a)", "", "a"],
  ["(?<a>x)(?<a>y)", "", "xy"], ["(?a)", "", "a"], ["(?#c)a", "", "a"], ["(?P<a>x)", "", "x"],
  ["(?>a)", "", "a"], ["a++", "", "a"], ["\\", "", "\\"], ["(?:a", "", "a"], ["(?<=a", "", "a"],
  ["(?<=a)+b", "", "ab"], ["a|*", "", "a"], ["^*", "", "a"], ["^*", "u", "a"], ["$?", "", "a"],
  [S`\b+`, "", "a"], [S`[\p{L}-z]`, "u", "a"], [S`[b-\d]`, "u", "b"], ["((a)", "", "a"],
  ["(?i)a", "", "A"], [S`[\]`, "", "]"], [S`\u{1F600`, "u", "a"], [S`(?<a`, "u", "a"],
  // newer than Node 20
  ["(?i:a)", "", "A"], ["(?-i:a)", "i", "a"], ["(?i-s:a)", "u", "A"], ["(?ims:a)b", "", "ab"],
  ["(?<y>a)|(?<y>b)", "", "b"], ["(?:(?<y>a)|(?<y>b))\\k<y>", "u", "bb"], [S`\(?i:a`, "", "(i:a"],
  ["[(?i:a)]", "", "i"], ["[(?<y>a)|(?<y>b)]", "", "y"],
  // other scripts
  ["灯塔", "", "他走进灯塔大门"], ["灯.门", "", "灯塔门"], ["[一-龥]{2,}", "", "a 北京市"],
  ["ของ", "", "ชื่อของฉัน"], ["ก.", "", "กำ"], ["سلام", "", "قال سلام"], ["[ء-ي]+", "", "x مرحبا"],
  ["e.", "", "e\u0301x"], ["^.$", "u", "e\u0301"], [S`\p{M}`, "u", "e\u0301"], 
  ["한", "", "\u1112\u1161\u11ab"], ["👨‍👩‍👧", "", "x👨‍👩‍👧y"], ["👨", "u", "👨‍👩‍👧"], ["^.", "u", "👨‍👩‍👧"],
  ["👨.👩", "u", "👨‍👩‍👧"], ["👨.👩", "", "👨‍👩‍👧"], ["[👨👩]+", "", "👩"], ["❤️", "", "❤"], ["❤️?", "", "❤"],
  ["🇩🇪", "u", "🇦🇹🇩🇪"], ["नमस्ते", "", "वह नमस्ते"], ["ドラ(?:ゴン|ム)", "", "古いドラゴン"],
  // what would hurt if it were source
  ["`", "", "a`b"], [S`\${x}`, "", "${x}"], [`"`, "", `a"b`], ["'", "", "it's"], ["</script>", "", "</script>"],
  [S`\\`, "", "a\\b"], ["\u2028", "", "a\u2028"], ["\\\n", "", "a\n"], ["a\0b", "", "a\0b"],
];

function ask(source, flags, text) {
  try {
    new RegExp(source, flags);
    const match = new RegExp(source, flags.replaceAll("g", "")).exec(text);
    return match === null ? null : [match.index, match.index + match[0].length];
  } catch {
    return "invalid";
  }
}

const head = {
  source: `Node ${process.version} (V8 ${process.versions.v8}, Unicode ${process.versions.unicode})`,
  how: "node tests/golden/jsregex/record.mjs",
  case: "[source, flags, text, answer]; answer: \"invalid\", null or [start, end] in UTF-16 units",
};
const lines = cases.map(each => "    " + JSON.stringify([...each, ask(...each)]));
const body = JSON.stringify(head, null, 2).slice(0, -2) + ',\n  "cases": [\n' + lines.join(",\n") + "\n  ]\n}\n";
writeFileSync(new URL("node.json", import.meta.url), body);
