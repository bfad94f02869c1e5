/// The path of an object, such as `/org/bluez/hci0`. Whether it is one is checked where it is used: a call with a malformed
/// path throws `invalidArguments`. What came from the bus is well-formed.
public struct DBusObjectPath: Sendable, Hashable {
    public let text: String

    public init(_ text: String) { self.text = text }

    public static let root: DBusObjectPath = "/"

    /// `self` with another element.
    public func appending(_ element: String) -> DBusObjectPath {
        DBusObjectPath(text == "/" ? "/" + element : text + "/" + element)
    }

    /// What comes before the last element: `/org/bluez` of `/org/bluez/hci0`; nil of the root.
    public var parent: DBusObjectPath? {
        guard text != "/", let slash = text.lastIndex(of: "/") else { return nil }
        return slash == text.startIndex ? .root : DBusObjectPath(String(text[..<slash]))
    }

    /// What comes after the last slash: `hci0` of `/org/bluez/hci0`.
    public var lastElement: String {
        text.lastIndex(of: "/").map { String(text[text.index(after: $0)...]) } ?? text
    }

    /// Whether it lies beneath `ancestor`; no path lies beneath itself.
    public func isDescendant(of ancestor: DBusObjectPath) -> Bool {
        ancestor.text == "/" ? text != "/" : text.utf8.starts(with: (ancestor.text + "/").utf8)
    }
}

extension DBusObjectPath: ExpressibleByStringLiteral, CustomStringConvertible, Comparable {
    public init(stringLiteral text: String) { self.init(text) }
    public var description: String { text }
    public static func < (left: DBusObjectPath, right: DBusObjectPath) -> Bool { left.text < right.text }
}
