//! XML, both ways: a small tree for documents that clients send, escaping and a writer for
//! responses.
//!
//! Callers must limit the length of a document. All DTDs are refused.

use crate::chunks::all_bytes;
use percent_encoding::percent_decode_str;
use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};

/// Maximum nesting of elements. The documents of the protocol nest less.
const DEPTH_MAX: usize = 16;
/// Maximum number of elements of a document that is read as a tree. The protocol's documents have
/// dozens at most. A tree takes many times the memory of its text, and this bounds it to some 100
/// KiB.
const ELEMENTS_MAX: usize = 1000;

/// Why a document could not be parsed, as a text for users.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Malformed(String);

/// An element. Of its attributes, only `Encoded` is kept.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// The name without its prefix.
    pub name: String,
    /// The element's own text in one piece, without the texts of its children.
    pub text: String,
    /// The child elements, in the order of the document.
    pub children: Vec<Element>,
    /// `Encoded="true"`: the text is percent-encoded, because XML cannot hold it.
    pub is_encoded: bool,
}

impl Element {
    /// The first child with this name.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// All children with this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The text of the first child with this name, decoded if `is_encoded`; empty if absent.
    pub fn child_name(&self, name: &str) -> String {
        match self.child(name) {
            Some(child) if child.is_encoded => percent_decode_str(&child.text)
                .decode_utf8_lossy()
                .into_owned(),
            Some(child) => child.text.clone(),
            None => String::new(),
        }
    }

    /// The text of the first child with this name, as it is; empty if absent.
    pub fn raw_text(&self, name: &str) -> &str {
        self.child(name).map_or("", |child| &child.text)
    }

    /// The text of the first child of that name, without the white space around it; `None` if
    /// absent or empty.
    pub fn child_text(&self, name: &str) -> Option<String> {
        self.child(name)
            .map(|child| child.text.trim().to_owned())
            .filter(|text| !text.is_empty())
    }
}

/// Parses a client's document and returns its root element. Keeps white space inside elements.
pub fn parse(bytes: &[u8]) -> Result<Element, Malformed> {
    read_tree(bytes, ELEMENTS_MAX)
}

/// Reads a document that a service sent, such as a page of a listing, which may be long. The caller
/// must limit its length.
pub fn parse_response(bytes: &[u8]) -> Result<Element, Malformed> {
    read_tree(bytes, usize::MAX)
}

fn read_tree(bytes: &[u8], elements_max: usize) -> Result<Element, Malformed> {
    let mut reader = reader(bytes)?;
    // The bottom of the stack is not an element of the document: the root becomes its child.
    let mut open = vec![Element::default()];
    let mut elements = 0;
    loop {
        let event = next_event(&mut reader)?;
        let depth = open.len();
        let top = open.last_mut().expect("the foot of the stack stays");
        match event {
            Event::Start(_) if depth > DEPTH_MAX => {
                return Err(Malformed(format!(
                    "it nests deeper than {DEPTH_MAX} elements"
                )));
            }
            Event::Start(_) if elements == elements_max => {
                return Err(Malformed(format!(
                    "it has more than {elements_max} elements"
                )));
            }
            Event::Start(start) => {
                elements += 1;
                let name = start.local_name().as_ref().to_owned();
                let encoded = start.try_get_attribute("Encoded").ok().flatten();
                open.push(Element {
                    name,
                    is_encoded: encoded.is_some_and(|encoded| encoded.value.as_ref() == "true"),
                    ..Element::default()
                });
            }
            Event::End(_) => {
                let closed = open
                    .pop()
                    .expect("the reader checks that ends match starts");
                open.last_mut()
                    .ok_or_else(|| Malformed("an element ends twice".to_owned()))?
                    .children
                    .push(closed);
            }
            Event::Eof => break,
            other => push_text(&mut top.text, &other)?,
        }
    }
    root(open)
}

/// Reads a document whose root, named `root`, has children that contain only text. Passes on each
/// name and text. Holds one child in memory.
pub fn read_list<E: From<Malformed>>(
    bytes: &[u8],
    root: &str,
    mut child: impl FnMut(&str, &str) -> Result<(), E>,
) -> Result<(), E> {
    let mut reader = reader(bytes)?;
    let (mut depth, mut roots) = (0, 0);
    let (mut name, mut text) = (String::new(), String::new());
    loop {
        match next_event(&mut reader)? {
            Event::Start(start) => {
                match depth {
                    0 if roots == 0 && start.local_name().as_ref() == root => roots += 1,
                    0 => return Err(Malformed(format!("its one root is to be {root}")).into()),
                    1 => {
                        check_blank(&text)?;
                        name.clear();
                        name.push_str(start.local_name().as_ref());
                        text.clear();
                    }
                    _ => return Err(Malformed(format!("{name} holds an element")).into()),
                }
                depth += 1;
            }
            Event::End(_) => {
                depth -= 1;
                if depth == 1 {
                    check_text(&text)?;
                    child(&name, &text)?;
                    text.clear();
                }
            }
            Event::Eof if depth == 0 && roots == 1 => return Ok(check_blank(&text)?),
            Event::Eof => return Err(Malformed("it does not end".to_owned()).into()),
            other => push_text(&mut text, &other)?,
        }
    }
}

fn reader(bytes: &[u8]) -> Result<Reader<&[u8]>, Malformed> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Malformed(format!("it is not UTF-8: {error}")))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    Ok(reader)
}

fn next_event<'a>(reader: &mut Reader<&'a [u8]>) -> Result<Event<'a>, Malformed> {
    let event = reader.read_event();
    event.map_err(|error| Malformed(error.to_string()))
}

/// Keeps line ends as sent, because a message must come back unchanged.
fn push_text(text: &mut String, event: &Event<'_>) -> Result<(), Malformed> {
    match event {
        Event::Text(part) => text.push_str(part),
        Event::CData(part) => text.push_str(part),
        Event::GeneralRef(reference) => text.push(resolve(reference)?),
        Event::DocType(_) => {
            return Err(Malformed(
                "document type declarations are not taken".to_owned(),
            ));
        }
        _ => {}
    }
    Ok(())
}

fn check_blank(text: &str) -> Result<(), Malformed> {
    if text.trim().is_empty() {
        Ok(())
    } else {
        Err(Malformed("it has text between its elements".to_owned()))
    }
}

fn check_text(text: &str) -> Result<(), Malformed> {
    if all_bytes(text, |byte| matches!(byte, b' '..=b'~')) || text.chars().all(is_xml_character) {
        Ok(())
    } else {
        Err(Malformed(
            "it holds characters that XML does not allow".to_owned(),
        ))
    }
}

fn root(mut open: Vec<Element>) -> Result<Element, Malformed> {
    let mut foot = open.pop().unwrap_or_default();
    match (
        open.is_empty(),
        foot.children.len(),
        foot.text.trim().is_empty(),
    ) {
        (true, 1, true) => check_characters(foot.children.remove(0)),
        (false, ..) => Err(Malformed(format!("element {} does not end", foot.name))),
        _ => Err(Malformed("it needs exactly one root element".to_owned())),
    }
}

fn check_characters(element: Element) -> Result<Element, Malformed> {
    fn check(element: &Element) -> Result<(), Malformed> {
        check_text(&element.text)?;
        element.children.iter().try_for_each(check)
    }
    check(&element).map(|()| element)
}

fn resolve(reference: &BytesRef<'_>) -> Result<char, Malformed> {
    let character = reference
        .resolve_char_ref()
        .map_err(|error| Malformed(error.to_string()))?;
    let name: &str = reference;
    character
        .or(match name {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            _ => None,
        })
        .ok_or_else(|| Malformed(format!("the entity {name} is not defined")))
}

/// Whether XML 1.0 can contain the character. Source: XML 1.0, production 2.
pub fn is_xml_character(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// Appends `text` as element or attribute content. A carriage return is written as a reference:
/// parsers turn a bare one into a line feed.
pub fn escape_into(out: &mut String, text: &str) {
    let is_plain =
        |byte: u8| matches!(byte, b' '..=b'~') & !matches!(byte, b'&' | b'<' | b'>' | b'"');
    if all_bytes(text, is_plain) {
        return out.push_str(text);
    }
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\r' => out.push_str("&#xD;"),
            other if is_xml_character(other) => out.push(other),
            _ => out.push('\u{fffd}'),
        }
    }
}

/// Writes a document from front to back.
#[derive(Debug)]
pub struct Writer {
    document: String,
}

impl Default for Writer {
    fn default() -> Writer {
        Writer::new()
    }
}

impl Writer {
    /// Begins a document.
    pub fn new() -> Writer {
        Writer {
            document: String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?>"),
        }
    }

    /// Writes `<name>`.
    pub fn open(&mut self, name: &str) {
        self.open_with(name, &[]);
    }

    /// Writes `<name attribute="value">`.
    pub fn open_with(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.document.push('<');
        self.document.push_str(name);
        for (attribute, value) in attributes {
            self.document.push(' ');
            self.document.push_str(attribute);
            self.document.push_str("=\"");
            escape_into(&mut self.document, value);
            self.document.push('"');
        }
        self.document.push('>');
    }

    /// Writes `</name>`.
    pub fn close(&mut self, name: &str) {
        self.document.push_str("</");
        self.document.push_str(name);
        self.document.push('>');
    }

    /// Writes `<name>text</name>`, with the text escaped.
    pub fn element(&mut self, name: &str, text: &str) {
        self.open(name);
        escape_into(&mut self.document, text);
        self.close(name);
    }

    /// Writes text inside the element opened last.
    pub fn text(&mut self, text: &str) {
        escape_into(&mut self.document, text);
    }

    /// Writes the element if there is a text.
    pub fn optional(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.element(name, text);
        }
    }

    /// The finished document.
    pub fn finish(self) -> String {
        self.document
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(document: &str) -> Result<String, Malformed> {
        parse(document.as_bytes()).map(|root| root.text)
    }

    #[test]
    fn text_is_kept_to_the_letter() {
        assert_eq!(
            text("<a> \n x &amp; &#x41;&#66;<![CDATA[<&>]]></a>").unwrap(),
            " \n x & AB<&>"
        );
        assert_eq!(
            text("\u{feff}<?xml version='1.0' encoding='utf-8'?>\n<!-- c --><a/>").unwrap(),
            ""
        );
        let root = parse(b"<q:a xmlns:q='u'><b x='1'>1</b>\n<c/><b>2</b></q:a>").unwrap();
        assert_eq!(root.name, "a");
        let children: Vec<_> = root
            .children
            .iter()
            .map(|child| (child.name.as_str(), child.text.as_str()))
            .collect();
        assert_eq!(children, [("b", "1"), ("c", ""), ("b", "2")]);
    }

    #[test]
    fn malformed_documents_are_refused() {
        let deep = |depth| "<a>".repeat(depth) + &"</a>".repeat(depth);
        assert!(text(&deep(DEPTH_MAX)).is_ok());
        for document in [
            "",
            "x",
            "<a>",
            "<a></b>",
            "<a/><b/>",
            "</a>",
            "<a/>x",
            "<!DOCTYPE a><a/>",
            "<a>&undefined;</a>",
            "<a>&#0;</a>",
            "<a>\u{1}</a>",
            "<a",
            &deep(DEPTH_MAX + 1),
        ] {
            assert!(text(document).is_err(), "{document}");
        }
    }

    #[test]
    fn a_tree_has_a_bounded_number_of_elements() {
        let flat = |count| format!("<a>{}</a>", "<b/>".repeat(count));
        assert!(text(&flat(ELEMENTS_MAX - 1)).is_ok());
        assert!(text(&flat(ELEMENTS_MAX)).is_err());
    }

    #[test]
    fn children_are_found_by_name_and_decoded_if_they_say_so() {
        let document = "<r><a>1</a><n Encoded='true'>a%EF%BF%BF</n><n>b%20</n><a Encoded='false'>%20</a><u>%20</u></r>";
        let root = parse(document.as_bytes()).unwrap();
        assert_eq!(root.child_name("n"), "a\u{ffff}");
        assert_eq!(root.child_name("a"), "1");
        assert_eq!(root.child_name("u"), "%20");
        assert_eq!(root.child_name("x"), "");
        let texts: Vec<_> = root.all("a").map(|child| child.text.as_str()).collect();
        assert_eq!(texts, ["1", "%20"]);
        assert!(!root.children[3].is_encoded);
    }

    #[test]
    fn characters_that_xml_cannot_hold_are_replaced() {
        let mut writer = Writer::new();
        writer.open("a");
        writer.text("<\u{1}\u{ffff}>");
        writer.close("a");
        assert!(writer.finish().ends_with("<a>&lt;\u{fffd}\u{fffd}&gt;</a>"));
    }

    fn list(document: &str) -> Result<Vec<(String, String)>, Malformed> {
        let mut children = Vec::new();
        read_list(document.as_bytes(), "l", |name, text| {
            children.push((name.to_owned(), text.to_owned()));
            Ok::<(), Malformed>(())
        })?;
        Ok(children)
    }

    #[test]
    fn a_list_is_read_child_by_child() {
        let children = list("<?xml version='1.0'?>\n<l>\n <a>1&amp;</a><b/>\n <a> 2 </a></l>\n");
        let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(
            children.unwrap(),
            [pair("a", "1&"), pair("b", ""), pair("a", " 2 ")]
        );
        assert!(list("<l/>").unwrap().is_empty());
    }

    #[test]
    fn documents_that_are_no_flat_list_are_refused() {
        for document in [
            "",
            "<m/>",
            "<l>",
            "<l><a></l>",
            "<l>x<a/></l>",
            "<l><a/>x</l>",
            "<l><a><b/></a></l>",
            "<l/><l/>",
            "<l/>x",
            "<!DOCTYPE l><l/>",
            "<l><a>\u{1}</a></l>",
        ] {
            assert!(list(document).is_err(), "{document}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for content in [
            "",
            "  ",
            "a&b<c>\"d\"",
            "line\r\nline\rline\n",
            "emoji 😀",
            "]]>",
            "<MessageText/>",
            "&<>\"",
        ] {
            let mut writer = Writer::new();
            writer.open_with("a", &[("b", content)]);
            writer.element("t", content);
            writer.close("a");
            let document = writer.finish();
            let read = parse(document.as_bytes()).unwrap();
            assert_eq!(read.child("t").unwrap().text, content);
            let start = document.split("<a ").nth(1).unwrap();
            let element = format!("<a {}/>", &start[..start.find('>').unwrap()]);
            let mut reader = Reader::from_str(&element);
            let Event::Empty(start) = reader.read_event().unwrap() else {
                panic!("{element}");
            };
            let attribute = start.try_get_attribute("b").unwrap().unwrap();
            assert_eq!(
                quick_xml::escape::unescape(&attribute.value).unwrap(),
                content
            );
        }
    }

    #[test]
    fn a_refusal_says_what_is_wrong_with_the_document() {
        let says = |refused: Malformed, part: &str| {
            assert!(refused.to_string().contains(part), "{refused}");
        };
        says(text("<a><b>").unwrap_err(), "element b does not end");
        says(text("<a/><b/>").unwrap_err(), "exactly one root");
        says(list("<m/>").unwrap_err(), "its one root is to be l");
        says(list("<l/><l/>").unwrap_err(), "its one root is to be l");
    }

    #[test]
    fn the_five_entities_of_xml_are_known() {
        assert_eq!(text("<a>&amp;&lt;&gt;&quot;&apos;</a>").unwrap(), "&<>\"'");
    }

    /// Parsers turn a bare carriage return into a line feed.
    #[test]
    fn a_carriage_return_is_written_as_a_reference() {
        let mut writer = Writer::default();
        writer.element("a", "1\r\n2");
        let document = writer.finish();
        assert_eq!(
            document,
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><a>1&#xD;\n2</a>"
        );
    }

    #[test]
    fn a_response_may_be_longer_than_a_request() {
        let long = format!("<a>{}</a>", "<b/>".repeat(ELEMENTS_MAX));
        assert_eq!(
            parse_response(long.as_bytes()).unwrap().children.len(),
            ELEMENTS_MAX
        );
    }
}
