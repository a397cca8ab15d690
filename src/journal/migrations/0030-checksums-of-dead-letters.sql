-- Dead letters come with their checksum: a trigger that computes it copies an event several times. The trigger is made
-- anew behind the migrations.
DROP TRIGGER IF EXISTS dead_letters_checksum_insert;
