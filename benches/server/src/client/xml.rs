//! Parses XML responses of Blob and Queue into a tree. They are pages of bounded size.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

use crate::client::error::Error;

/// An element: its name, its own text with references resolved, and its children in order.
#[derive(Debug, Default)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) children: Vec<Element>,
}

impl Element {
    /// The text of the first child called `name`; empty if there is none.
    pub(crate) fn text_of(&self, name: &str) -> &str {
        self.child(name).map_or("", |child| &child.text)
    }

    /// The first child called `name`.
    pub(crate) fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }
}

/// Parses `document` and returns its root element. Error: `Malformed`.
pub(crate) fn parse(document: &[u8]) -> Result<Element, Error> {
    let malformed = |what: String| Error::Malformed(format!("the answer is not XML: {what}"));
    let text = std::str::from_utf8(document).map_err(|error| malformed(error.to_string()))?;
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    let mut open = vec![Element::default()];
    loop {
        let event = reader.read_event();
        match event.map_err(|error| malformed(error.to_string()))? {
            Event::Start(start) => open.push(element(start.name().as_ref())),
            Event::Empty(start) => append(&mut open, element(start.name().as_ref()))?,
            Event::End(_) => {
                let closed = open.pop().ok_or_else(|| malformed("surplus end".into()))?;
                append(&mut open, closed)?;
            }
            Event::Text(text) => push_text(&mut open, &text.xml10_content()),
            Event::CData(text) => push_text(&mut open, &text.xml10_content()),
            Event::GeneralRef(entity) => {
                let name = entity.into_inner();
                let resolved = resolve(&name).ok_or_else(|| malformed(format!("&{name};")))?;
                push_text(&mut open, &resolved);
            }
            Event::Eof => break,
            _ => {}
        }
    }
    let root = open.pop().and_then(|mut top| top.children.pop());
    root.filter(|_| open.is_empty())
        .ok_or_else(|| malformed("the end is missing".into()))
}

/// `text` escaped as the content of an element.
pub(crate) fn escape(text: &str) -> String {
    quick_xml::escape::escape(text).into_owned()
}

fn element(name: &str) -> Element {
    let name = name.to_owned();
    Element {
        name,
        ..Element::default()
    }
}

fn append(open: &mut [Element], child: Element) -> Result<(), Error> {
    let parent = open.last_mut();
    let parent =
        parent.ok_or_else(|| Error::Malformed("the answer has a surplus end tag".into()))?;
    parent.children.push(child);
    Ok(())
}

fn push_text(open: &mut [Element], text: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(text);
    }
}

/// The character of a reference such as `amp`, `#10` or `#xA`.
fn resolve(name: &str) -> Option<String> {
    let number = match name.strip_prefix('#') {
        None => return resolve_predefined_entity(name).map(str::to_owned),
        Some(digits) => match digits.strip_prefix('x') {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => digits.parse().ok()?,
        },
    };
    char::from_u32(number).map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_hold_their_text_and_children() {
        let root = parse(
            b"\xef\xbb\xbf<?xml version=\"1.0\"?><A x='1'><B>a&lt;b &amp; c&#10;&#x41;</B><C/></A>",
        );
        let root = root.unwrap();
        assert_eq!(root.name, "A");
        assert_eq!(root.text_of("B"), "a<b & c\nA");
        assert_eq!(root.text_of("C"), "");
        assert!(root.child("D").is_none());
    }

    #[test]
    fn a_torn_document_is_an_error() {
        assert!(parse(b"<A><B>").is_err());
        assert!(parse(b"").is_err());
        assert!(parse(b"<A>&nothing;</A>").is_err());
    }
}
