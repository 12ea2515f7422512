//! Checks of the elements of properties documents.

use crate::response::error::{Failure, Result, common};
use crate::xml::Element;

/// The text of a required child. Error: it is absent or empty.
pub fn required(part: &Element, name: &'static str) -> Result<String> {
    part.child_text(name)
        .ok_or_else(|| Failure::missing_element(name))
}

/// Refuses children that are not among `names`, or that occur twice.
pub fn check_children(part: &Element, names: &[&str]) -> Result<()> {
    match part
        .children
        .iter()
        .find(|child| !names.contains(&child.name.as_str()))
    {
        Some(child) => Err(common::UNSUPPORTED_XML_NODE.with("XmlNodeName", &child.name)),
        None => refuse_repetition(part),
    }
}

/// Refuses children that occur twice.
pub fn refuse_repetition(part: &Element) -> Result<()> {
    let children = &part.children;
    let repeated = (1..children.len()).find(|&at| {
        children[..at]
            .iter()
            .any(|one| one.name == children[at].name)
    });
    match repeated {
        Some(at) => {
            let detail = format!("{} is there twice.", children[at].name);
            Err(common::INVALID_XML_DOCUMENT.with("ExtendedErrorDetail", detail))
        }
        None => Ok(()),
    }
}
