public import OTAFirmware

/// The devices that a rollout can update: their product, their running version, and optionally their groups.
public struct Selection: Sendable, Hashable {
    public let product: ProductName
    public let running: VersionCondition?
    /// A device that runs a newer version than this one is not selected. It is the version of the release, so that the rollout installs no
    /// older version than the running one. Nil: the operator has permitted a downgrade.
    public let newest: SemanticVersion?
    /// The device must be in at least one of these groups. An empty list means all devices.
    public let groups: [GroupName]

    public init(
        product: ProductName, running: VersionCondition? = nil, newest: SemanticVersion? = nil, groups: [GroupName] = []
    ) {
        self.product = product
        self.running = running
        self.newest = newest
        self.groups = groups
    }

    /// Returns the selection without the devices that run a newer version.
    public func notAbove(_ version: SemanticVersion) -> Selection {
        Selection(product: product, running: running, newest: version, groups: groups)
    }

    /// Returns whether a version is newer than `newest`, so that the selection does not include a device that runs it.
    public func isNewer(_ version: SemanticVersion?) -> Bool {
        guard let newest, let version else { return false }
        return version.takesPrecedence(over: newest)
    }

    /// Returns whether the selection includes a device. A device whose product is unknown is never selected. A device whose version is
    /// unknown is not selected if the condition `running` applies.
    ///
    /// - Parameter ignoringVersion: true if the device already has a job of the rollout. The condition for the version then does not apply.
    public func includes(
        product: ProductName?, version: SemanticVersion?, groups: [GroupName], ignoringVersion: Bool = false
    ) -> Bool {
        guard product == self.product else { return false }
        if let running, !ignoringVersion {
            guard let version, running.includes(version) else { return false }
        }
        if !ignoringVersion, isNewer(version) { return false }
        return self.groups.isEmpty || !Set(self.groups).isDisjoint(with: groups)
    }

    init(_ fields: RecordFields) throws(FleetError) {
        product = try fields.required("product", fields.value("product") { ProductName($0) })
        running = try fields.value("running") { VersionCondition($0) }
        newest = try fields.value("newest") { SemanticVersion($0) }
        groups = try fields.list("groups") { GroupName($0) } ?? []
    }

    var fields: RecordFields {
        var fields = RecordFields.nested("the selection")
        fields.set("product", product.text)
        fields.set("running", running?.description)
        fields.set("newest", newest?.text)
        fields.set("groups", groups.map(\.text))
        return fields
    }
}
