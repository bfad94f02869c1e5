/// The path of an object, such as `/org/bluez/hci0`.
///
/// The initializer does not check the syntax. The methods of ``DBusConnection`` throw `invalidArguments` for a malformed path.
/// Received paths are always well-formed, because libdbus checks received messages.
public struct DBusObjectPath: Sendable, Hashable {
    public let text: String

    public init(_ text: String) { self.text = text }

    public static let root: DBusObjectPath = "/"

    /// Returns the path with `element` added at the end.
    public func appending(_ element: String) -> DBusObjectPath {
        DBusObjectPath(text == "/" ? "/" + element : text + "/" + element)
    }

    /// The path without its last element: `/org/bluez` for `/org/bluez/hci0`; nil for the root path `/`.
    public var parent: DBusObjectPath? {
        guard text != "/", let slash = text.lastIndex(of: "/") else { return nil }
        return slash == text.startIndex ? .root : DBusObjectPath(String(text[..<slash]))
    }

    /// The text after the last slash: `hci0` for `/org/bluez/hci0`.
    public var lastElement: String {
        text.lastIndex(of: "/").map { String(text[text.index(after: $0)...]) } ?? text
    }

    /// Returns whether this path is below `ancestor`, at any depth. A path is not below itself.
    public func isDescendant(of ancestor: DBusObjectPath) -> Bool {
        ancestor.text == "/" ? text != "/" : text.utf8.starts(with: (ancestor.text + "/").utf8)
    }
}

extension DBusObjectPath: ExpressibleByStringLiteral, CustomStringConvertible, Comparable {
    public init(stringLiteral text: String) { self.init(text) }
    public var description: String { text }
    public static func < (left: DBusObjectPath, right: DBusObjectPath) -> Bool { left.text < right.text }
}
