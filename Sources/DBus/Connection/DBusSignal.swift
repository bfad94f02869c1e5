/// A received signal.
public struct DBusSignal: Sendable, Hashable {
    /// The unique name of the sender, or the name of the bus for the bus's own signals.
    public var sender: String
    public var path: DBusObjectPath
    public var interface: String
    public var member: String
    public var arguments: [DBusValue]
}

/// The signal `NameOwnerChanged` of the bus.
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

/// A rule that selects signals (specification, "Match Rules"). A field that is nil matches every value.
public struct DBusMatch: Sendable, Hashable {
    /// The unique name or the well-known name of the sender. A well-known name selects the signals of its current owner.
    public var sender: String?
    public var path: DBusObjectPath?
    /// This path and all paths below it. Do not combine it with `path`.
    public var pathNamespace: DBusObjectPath?
    public var interface: String?
    public var member: String?
    /// The first argument. It matches only if that argument is a string.
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

    /// The sender if it is a well-known name, otherwise nil. A received signal contains only the unique name of its sender.
    /// Therefore the owner of a well-known name must be tracked.
    var wellKnownSender: String? {
        guard let sender, !sender.hasPrefix(":"), sender != Bus.name else { return nil }
        return sender
    }

    /// Returns the rule in the text format of the bus. Throws `invalidArguments`.
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

    /// Returns a string for use between apostrophes in a rule. The rule format allows no apostrophe inside a quoted string.
    /// Therefore this method closes the quotation, writes `\'`, and opens a new quotation.
    private static func quoted(_ text: String) -> String {
        text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''")
    }

    /// Returns whether the signal matches this rule. The bus sends a signal only once, even if several rules match, and does
    /// not report the matching rules. Therefore the connection checks each rule again.
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
