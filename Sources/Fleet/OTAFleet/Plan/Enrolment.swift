public import OTAFirmware

/// The devices of a rollout that are enrolled: only they count for its stages and its halt. An operator signs this value with the rollout.
///
/// Anyone in radio range can show a gateway any number of Bluetooth devices, and can choose their addresses and answers. The other devices
/// have addresses that the user of a gateway has given.
public struct Enrolment: Sendable, Hashable {
    /// The links whose devices must be in the list. On the other links, each device is enrolled.
    public enum Links: String, Sendable, CaseIterable {
        case all, bluetooth
    }

    public let links: Links
    /// The SHA-256 of ``EnrolledDevices``; nil if the list is empty. In the store, the list is the object with this digest.
    public let list: SHA256Digest?

    public init(_ links: Links, _ list: EnrolledDevices) {
        (self.links, self.list) = (links, list.digest)
    }

    init(_ fields: RecordFields) throws(FleetError) {
        links = try fields.required("links", fields.value("links") { Links(rawValue: $0) })
        list = fields.json("sha256") == nil ? nil : try fields.digest("sha256")
    }

    var fields: RecordFields {
        var fields = RecordFields.nested("the enrolment")
        fields.set("links", links.rawValue)
        fields.set("sha256", list?.description)
        return fields
    }
}
