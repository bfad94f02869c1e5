/// A signal that the connection has received.
public struct DBusSignal: Sendable, Hashable {
    /// The unique name of the sender, such as `:1.42`. The sender of the bus's own signals is `org.freedesktop.DBus`.
    public var sender: String
    public var path: DBusObjectPath
    public var interface: String
    public var member: String
    public var arguments: [DBusValue]
}

/// The content of the bus's signal `NameOwnerChanged`. The bus sends this signal when the owner of a bus name changes.
struct NameOwnerChange {
    var name: String
    var newOwner: String?

    init?(_ signal: DBusSignal) {
        guard signal.sender == Bus.name, signal.interface == Bus.name, signal.member == "NameOwnerChanged",
            signal.arguments.count == 3, let name = signal.arguments[0].string, let new = signal.arguments[2].string
        else { return nil }
        self.name = name
        newOwner = new.isEmpty ? nil : new
    }
}

/// A rule that selects signals (D-Bus specification, "Match Rules"). A field that is nil matches every value.
public struct DBusMatch: Sendable, Hashable {
    /// The unique name or the well-known name of the sender. A well-known name selects the signals of the current owner
    /// of the name.
    public var sender: String?
    public var path: DBusObjectPath?
    /// A path. The rule matches the signals from this path and from all paths below this path. Do not set `path`
    /// together with `pathNamespace`, because the D-Bus specification forbids this combination.
    public var pathNamespace: DBusObjectPath?
    public var interface: String?
    public var member: String?
    /// The first argument of the signal. The rule matches only signals whose first argument is this string.
    public var firstArgument: String?

    public init(
        sender: String? = nil, path: DBusObjectPath? = nil, pathNamespace: DBusObjectPath? = nil,
        interface: String? = nil, member: String? = nil, firstArgument: String? = nil
    ) {
        self.sender = sender
        self.path = path
        self.pathNamespace = pathNamespace
        self.interface = interface
        self.member = member
        self.firstArgument = firstArgument
    }

    static func ownerChanges(of name: String) -> DBusMatch {
        DBusMatch(
            sender: Bus.name, path: Bus.path, interface: Bus.name, member: "NameOwnerChanged", firstArgument: name)
    }

    /// The well-known name whose owner the connection must track for this rule: the value of `sender`. Nil if `sender` is nil, a unique
    /// name, or the bus's own name. The tracking is necessary because a received signal contains only the unique name of its sender.
    var wellKnownSender: String? {
        guard let sender, !sender.hasPrefix(":"), sender != Bus.name else { return nil }
        return sender
    }

    /// Returns the rule in the text format of the D-Bus specification. Throws `invalidArguments` if a field is
    /// malformed.
    func rule() throws(DBusError) -> String {
        if let sender { try Names.check(bus: sender) }
        if let path { try Names.check(path: path) }
        if let pathNamespace { try Names.check(path: pathNamespace) }
        if let interface { try Names.check(interface: interface) }
        if let member { try Names.check(member: member) }
        let parts = [
            ("type", "signal"), ("sender", sender), ("path", path?.text), ("path_namespace", pathNamespace?.text),
            ("interface", interface), ("member", member), ("arg0", firstArgument.map(Self.quoted)),
        ]
        return parts.compactMap { key, value in value.map { "\(key)='\($0)'" } }.joined(separator: ",")
    }

    /// Escapes a string for use between apostrophes in a rule. Each apostrophe becomes `'\''`: the end of the quoted string, an escaped
    /// apostrophe, and the start of a new quoted string.
    private static func quoted(_ text: String) -> String {
        text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''")
    }

    /// Returns whether a signal matches this rule. `ownerOf` returns the unique name of the owner of a well-known name.
    ///
    /// The bus sends a signal once, even if several rules match, and does not report which rules match. Therefore the connection
    /// compares each received signal with every rule.
    func fits(_ signal: DBusSignal, ownerOf: (String) -> String?) -> Bool {
        if let wellKnownSender {
            guard ownerOf(wellKnownSender) == signal.sender else { return false }
        } else if let sender, sender != signal.sender {
            return false
        }
        if let path, path != signal.path { return false }
        if let pathNamespace, pathNamespace != signal.path, !signal.path.isDescendant(of: pathNamespace) {
            return false
        }
        if let interface, interface != signal.interface { return false }
        if let member, member != signal.member { return false }
        if let firstArgument {
            guard case .string(firstArgument) = signal.arguments.first else { return false }
        }
        return true
    }
}
