from django.urls import include, path

handler403 = "inspector.access.denied"

urlpatterns = [path("", include("inspector.urls"))]
