import OTAFirmware

/// A piece of a web page. All texts and all values of attributes are escaped, so no value can become an element.
///
/// The elements are also well-formed XML, so that an XML parser can read the page.
package struct HTML: Sendable {
    /// The piece as text.
    package let source: String

    private init(source: String) { self.source = source }

    package static func text(_ text: String) -> HTML { HTML(source: escaped(text)) }

    /// - Parameter attributes: the names and values of the attributes.
    package static func element(
        _ name: String, attributes: KeyValuePairs<String, String> = [:], _ children: [HTML]
    ) -> HTML {
        let list = attributes.map { " \($0.key)=\"\(escaped($0.value))\"" }.joined()
        // A line feed after an element within a line would be a space on the page.
        let end = ["article", "header", "section", "tr"].contains(name) ? "\n" : ""
        return HTML(source: "<\(name)\(list)>\(children.map(\.source).joined())</\(name)>\(end)")
    }

    package static func element(
        _ name: String, attributes: KeyValuePairs<String, String> = [:], _ text: String
    ) -> HTML { element(name, attributes: attributes, [.text(text)]) }

    /// A table that scrolls sideways on a narrow screen. `headings` and each row have the same number of cells.
    static func table(_ headings: [String], _ rows: [[HTML]]) -> HTML {
        let head = element("tr", headings.map { element("th", attributes: ["scope": "col"], $0) })
        let body = rows.map { row in element("tr", row.map { element("td", [$0]) }) }
        return element(
            "div", attributes: ["class": "scroll"],
            [element("table", [element("thead", [head]), element("tbody", body)])])
    }

    /// A complete page without references to other files.
    ///
    /// - Parameter marker: a comment at the start of the page, by which ``FleetReport`` recognizes its own pages.
    static func page(title: String, style: String, marker: String, _ body: [HTML]) -> String {
        // The policy forbids scripts and all requests, as a second protection besides the escapes.
        let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
        return """
            <!DOCTYPE html>
            <!-- \(marker) -->
            <html lang="en" xmlns="http://www.w3.org/1999/xhtml">
            <head>
            <meta charset="utf-8"/>
            <meta http-equiv="Content-Security-Policy" content="\(policy)"/>
            <meta name="viewport" content="width=device-width, initial-scale=1"/>
            <meta name="color-scheme" content="light dark"/>
            <title>\(escaped(title))</title>
            <style>\(style)</style>
            </head>
            \(element("body", body).source)
            </html>

            """
    }

    private static func escaped(_ text: String) -> String {
        var escaped = ""
        for scalar in text.escapingUnprintable.unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            case "'": escaped += "&#39;"
            // Such a code point is not allowed in HTML and XML.
            case _ where scalar.properties.isNoncharacterCodePoint: escaped += "\u{FFFD}"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
